"""Results in one labelled form, and how their numbers read."""
