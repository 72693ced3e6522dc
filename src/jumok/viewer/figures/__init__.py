"""Figures for papers and slides, drawn by matplotlib from a trace; `figure.draw_figure` is the door.

Torch is not needed, and matplotlib is loaded by those modules alone that draw.
"""
