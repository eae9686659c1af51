"""Measurements of Holdfast beside its peers, on the machine at hand. Not part of the package."""
