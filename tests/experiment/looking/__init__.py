"""What is seen of an experiment before, in and after its run."""
