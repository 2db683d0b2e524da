"""Convolutions of one channel or of few a group: there is little to multiply as matrices."""
