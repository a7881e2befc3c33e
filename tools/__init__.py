"""What generates sources and documents of this repository; no part of the wheel."""
