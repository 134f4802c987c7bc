"""What a config says before it runs: theory, links, partitions."""
