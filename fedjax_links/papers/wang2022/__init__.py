"""Wang and Ji, NeurIPS 2022: generalised FedAvg with amplification, arbitrary participation."""
