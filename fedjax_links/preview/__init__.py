"""Shows what a config means before it runs: theory, links, partitions."""
