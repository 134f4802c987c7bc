"""The parts and lanes of an experiment."""
