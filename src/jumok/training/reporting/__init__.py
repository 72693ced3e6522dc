"""What a training reports: metrics.jsonl, learning curves, report.html and the progress bar."""
