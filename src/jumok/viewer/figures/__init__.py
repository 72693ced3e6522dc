"""Figures for papers and slides, drawn by matplotlib from a trace; see `figure.draw_figure`.

Only `options` is free of matplotlib.
"""
