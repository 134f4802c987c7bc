"""What a client does: its data, its programs and rates, and who computes in a round."""
