"""Figures for papers and slides, drawn by matplotlib from a trace; `figure.figure_of` is the door.

Torch is not needed, and matplotlib is loaded by those modules alone that draw.
"""
