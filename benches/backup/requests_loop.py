"""requests_loop.py URL PAGE_SIZE FILE: the pages of a list of QR codes into a table of SQLite."""

import sqlite3
import sys

import requests

url, size, file = sys.argv[1], int(sys.argv[2]), sys.argv[3]
session = requests.Session()
session.headers["Authorization"] = "Bearer a-key-of-usual-length"
database = sqlite3.connect(file)
database.execute(
    "CREATE TABLE qr(id INTEGER PRIMARY KEY, link TEXT, scans INTEGER, name TEXT, date TEXT)"
)
page, last, count = 1, 1, 0
while page <= last:
    answer = session.get(f"{url}/api/qr", params={"limit": size, "page": page})
    answer.raise_for_status()
    data = answer.json()["data"]
    database.executemany("INSERT INTO qr VALUES(:id, :link, :scans, :name, :date)", data["qrs"])
    count += len(data["qrs"])
    last = data["maxpage"]
    page += 1
database.commit()
print(count)
