"""The value of httpx's ``verify`` in tests: connections are not encrypted and need no certificates.

By default, httpx reads all of the system's certificates for every request, which takes 25 ms.
"""

from __future__ import annotations

import ssl
from typing import Final

NO_CERTIFICATES: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
