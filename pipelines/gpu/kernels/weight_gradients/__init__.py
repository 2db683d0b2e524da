"""Gradients of filters: tiles of images times tiles of gradients."""
