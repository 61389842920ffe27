"""Gets URL/1 to URL/30 one after the other with urllib3."""

import sys

import urllib3

url = sys.argv[1]
http = urllib3.PoolManager(retries=urllib3.Retry(total=5, respect_retry_after_header=True))
for i in range(1, 31):
    response = http.request("GET", f"{url}/{i}")
    if response.status != 200:
        sys.exit(f"{i}: status {response.status}")
