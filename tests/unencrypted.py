"""What tests pass to httpx as ``verify``: nothing here is encrypted, so no certificate is read.

By default httpx reads all of the system's for every request, 25 ms of a processor each.
"""

from __future__ import annotations

import ssl
from typing import Final

NO_CERTIFICATES: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
