"""Algorithms beside code that authors, or other engines, released, on one federation.

``python -m studies.authors_code NAME PATH`` runs a comparison (`__main__`). Nothing of the authors'
is part of this repository and nothing is downloaded: PATH is a checkout of theirs. Their loops run
unedited; data, networks and whatever else a loop imports stand in for the real ones (`standing`).
PyTorch, which their code needs, must be installed: ``pip install torch``.
"""
