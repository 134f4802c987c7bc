"""Float64 NumPy loops written from the papers' listings, independent of the engine."""
