"""Sun et al., ICLR 2025: Debiasing FedAvg, and clients that wait R rounds between selections."""
