"""What came out: scores, differences, boundaries, measurements, single images, examples, hospitals outside."""
