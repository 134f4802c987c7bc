"""Xiang et al., CDC 2023: FedPBC over two kinds of uplinks; its code was not released."""
