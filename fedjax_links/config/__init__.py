"""From plain values to objects: what a config can name, and how."""
