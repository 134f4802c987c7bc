"""Command lines: short absl mains over `fedjax_links.experiment` and `fedjax_links.report`."""
