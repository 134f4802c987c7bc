"""What each paper says of its experiments, as pairs of runs of this repository."""
