"""One labelled form of results."""
