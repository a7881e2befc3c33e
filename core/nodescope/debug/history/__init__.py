"""History: navigating the recording, and showing its moments."""
