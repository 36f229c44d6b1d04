CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE shape(shape INTEGER PRIMARY KEY, template TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE snapshot(
  snapshot INTEGER PRIMARY KEY,
  status TEXT NOT NULL,
  started INTEGER NOT NULL,
  touched INTEGER NOT NULL,
  finished INTEGER,
  forgotten INTEGER,
  tag TEXT,
  scope TEXT NOT NULL,
  requests INTEGER NOT NULL DEFAULT 0,
  throttled INTEGER NOT NULL DEFAULT 0,
  waited INTEGER NOT NULL DEFAULT 0,
  digest BLOB,
  chain BLOB
) STRICT;
CREATE TABLE snapshot_resource(
  snapshot INTEGER NOT NULL,
  resource TEXT NOT NULL,
  state TEXT NOT NULL,
  records INTEGER NOT NULL,
  added INTEGER NOT NULL DEFAULT 0,
  changed INTEGER NOT NULL DEFAULT 0,
  removed INTEGER NOT NULL DEFAULT 0,
  sum BLOB NOT NULL,
  message TEXT,
  PRIMARY KEY(snapshot, resource)
) STRICT, WITHOUT ROWID;
CREATE TABLE listing(
  resource TEXT NOT NULL,
  parent INTEGER NOT NULL,
  progress TEXT NOT NULL,
  PRIMARY KEY(resource, parent)
) STRICT, WITHOUT ROWID;
CREATE TABLE listing_page(
  resource TEXT NOT NULL,
  parent INTEGER NOT NULL,
  page INTEGER NOT NULL,
  evidence TEXT NOT NULL,
  seen BLOB NOT NULL,
  PRIMARY KEY(resource, parent, page)
) STRICT, WITHOUT ROWID;
CREATE TABLE learned(resource TEXT PRIMARY KEY, page_size INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE sent(
  resource TEXT NOT NULL,
  key TEXT NOT NULL,
  field TEXT NOT NULL,
  value TEXT NOT NULL,
  sent INTEGER NOT NULL,
  PRIMARY KEY(resource, key, field)
) STRICT, WITHOUT ROWID;
CREATE TABLE run(
  run INTEGER PRIMARY KEY,
  command TEXT NOT NULL,
  status TEXT NOT NULL,
  started INTEGER NOT NULL,
  finished INTEGER,
  before INTEGER,
  after INTEGER
, plan_id TEXT NOT NULL DEFAULT '', plan TEXT NOT NULL DEFAULT '', asked TEXT NOT NULL DEFAULT '', touched TEXT NOT NULL DEFAULT '', requests INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE TABLE statistics_qr_codes(
  id INTEGER NOT NULL,
  snapshot INTEGER NOT NULL,
  scans INTEGER NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY(id, snapshot)
) STRICT, WITHOUT ROWID;
CREATE TABLE version_account(
  version INTEGER PRIMARY KEY,
  since INTEGER NOT NULL,
  until INTEGER,
  shape INTEGER NOT NULL,
  "id" INTEGER NOT NULL,
  "email" TEXT,
  "username" TEXT,
  "avatar" TEXT,
  "status" TEXT,
  "expires" TEXT,
  "registered" TEXT,
  extra TEXT
) STRICT;
CREATE UNIQUE INDEX open_account ON version_account("id") WHERE until IS NULL;
CREATE VIEW account AS
  SELECT v."id", v."email", v."username", v."avatar", v."status", v."expires", v."registered"
  FROM version_account v, (SELECT max(snapshot) AS newest FROM snapshot WHERE finished IS NOT NULL AND forgotten IS NULL) AS n
  WHERE v.since <= n.newest AND (v.until IS NULL OR v.until > n.newest);
CREATE VIEW account_history AS
  SELECT v.since AS since_snapshot, CASE WHEN v.until <= n.newest THEN v.until END AS until_snapshot,
    (SELECT strftime('%Y-%m-%dT%H:%M:%SZ', started / 1000, 'unixepoch') FROM snapshot WHERE snapshot = v.since) AS since, (SELECT strftime('%Y-%m-%dT%H:%M:%SZ', started / 1000, 'unixepoch') FROM snapshot WHERE snapshot = CASE WHEN v.until <= n.newest THEN v.until END) AS until,
    v."id", v."email", v."username", v."avatar", v."status", v."expires", v."registered"
  FROM version_account v, (SELECT max(snapshot) AS newest FROM snapshot WHERE finished IS NOT NULL AND forgotten IS NULL) AS n
  WHERE v.since <= n.newest;
CREATE TABLE version_domains(
  version INTEGER PRIMARY KEY,
  since INTEGER NOT NULL,
  until INTEGER,
  shape INTEGER NOT NULL,
  "id" INTEGER NOT NULL,
  "domain" TEXT,
  "redirectroot" TEXT,
  "redirect404" TEXT,
  extra TEXT
) STRICT;
CREATE UNIQUE INDEX open_domains ON version_domains("id") WHERE until IS NULL;
CREATE VIEW domains AS
  SELECT v."id", v."domain", v."redirectroot", v."redirect404"
  FROM version_domains v, (SELECT max(snapshot) AS newest FROM snapshot WHERE finished IS NOT NULL AND forgotten IS NULL) AS n
  WHERE v.since <= n.newest AND (v.until IS NULL OR v.until > n.newest);
CREATE VIEW domains_history AS
  SELECT v.since AS since_snapshot, CASE WHEN v.until <= n.newest THEN v.until END AS until_snapshot,
    (SELECT strftime('%Y-%m-%dT%H:%M:%SZ', started / 1000, 'unixepoch') FROM snapshot WHERE snapshot = v.since) AS since, (SELECT strftime('%Y-%m-%dT%H:%M:%SZ', started / 1000, 'unixepoch') FROM snapshot WHERE snapshot = CASE WHEN v.until <= n.newest THEN v.until END) AS until,
    v."id", v."domain", v."redirectroot", v."redirect404"
  FROM version_domains v, (SELECT max(snapshot) AS newest FROM snapshot WHERE finished IS NOT NULL AND forgotten IS NULL) AS n
  WHERE v.since <= n.newest;
CREATE TABLE version_campaigns(
  version INTEGER PRIMARY KEY,
  since INTEGER NOT NULL,
  until INTEGER,
  shape INTEGER NOT NULL,
  "id" INTEGER NOT NULL,
  "name" TEXT,
  "public" INTEGER,
  "rotator" TEXT,
  "list" TEXT,
  extra TEXT
) STRICT;
CREATE UNIQUE INDEX open_campaigns ON version_campaigns("id") WHERE until IS NULL;
CREATE VIEW campaigns AS
  SELECT v."id", v."name", v."public", v."rotator", v."list"
  FROM version_campaigns v, (SELECT max(snapshot) AS newest FROM snapshot WHERE finished IS NOT NULL AND forgotten IS NULL) AS n
  WHERE v.since <= n.newest AND (v.until IS NULL OR v.until > n.newest);
CREATE VIEW campaigns_history AS
  SELECT v.since AS since_snapshot, CASE WHEN v.until <= n.newest THEN v.until END AS until_snapshot,
    (SELECT strftime('%Y-%m-%dT%H:%M:%SZ', started / 1000, 'unixepoch') FROM snapshot WHERE snapshot = v.since) AS since, (SELECT strftime('%Y-%m-%dT%H:%M:%SZ', started / 1000, 'unixepoch') FROM snapshot WHERE snapshot = CASE WHEN v.until <= n.newest THEN v.until END) AS until,
    v."id", v."name", v."public", v."rotator", v."list"
  FROM version_campaigns v, (SELECT max(snapshot) AS newest FROM snapshot WHERE finished IS NOT NULL AND forgotten IS NULL) AS n
  WHERE v.since <= n.newest;
CREATE TABLE version_channels(
  version INTEGER PRIMARY KEY,
  since INTEGER NOT NULL,
  until INTEGER,
  shape INTEGER NOT NULL,
  "id" INTEGER NOT NULL,
  "name" TEXT,
  "description" TEXT,
  "color" TEXT,
  "starred" INTEGER,
  extra TEXT
) STRICT;
CREATE UNIQUE INDEX open_channels ON version_channels("id") WHERE until IS NULL;
CREATE VIEW channels AS
  SELECT v."id", v."name", v."description", v."color", v."starred"
  FROM version_channels v, (SELECT max(snapshot) AS newest FROM snapshot WHERE finished IS NOT NULL AND forgotten IS NULL) AS n
  WHERE v.since <= n.newest AND (v.until IS NULL OR v.until > n.newest);
CREATE VIEW channels_history AS
  SELECT v.since AS since_snapshot, CASE WHEN v.until <= n.newest THEN v.until END AS until_snapshot,
    (SELECT strftime('%Y-%m-%dT%H:%M:%SZ', started / 1000, 'unixepoch') FROM snapshot WHERE snapshot = v.since) AS since, (SELECT strftime('%Y-%m-%dT%H:%M:%SZ', started / 1000, 'unixepoch') FROM snapshot WHERE snapshot = CASE WHEN v.until <= n.newest THEN v.until END) AS until,
    v."id", v."name", v."description", v."color", v."starred"
  FROM version_channels v, (SELECT max(snapshot) AS newest FROM snapshot WHERE finished IS NOT NULL AND forgotten IS NULL) AS n
  WHERE v.since <= n.newest;
CREATE TABLE version_channel_items(
  version INTEGER PRIMARY KEY,
  since INTEGER NOT NULL,
  until INTEGER,
  shape INTEGER NOT NULL,
  "channel" INTEGER NOT NULL,
  "type" TEXT NOT NULL,
  "id" INTEGER NOT NULL,
  "title" TEXT,
  "preview" TEXT,
  "link" TEXT,
  "date" TEXT,
  extra TEXT
) STRICT;
CREATE UNIQUE INDEX open_channel_items ON version_channel_items("channel", "type", "id") WHERE until IS NULL;
CREATE VIEW channel_items AS
  SELECT v."channel", v."type", v."id", v."title", v."preview", v."link", v."date"
  FROM version_channel_items v, (SELECT max(snapshot) AS newest FROM snapshot WHERE finished IS NOT NULL AND forgotten IS NULL) AS n
  WHERE v.since <= n.newest AND (v.until IS NULL OR v.until > n.newest);
CREATE VIEW channel_items_history AS
  SELECT v.since AS since_snapshot, CASE WHEN v.until <= n.newest THEN v.until END AS until_snapshot,
    (SELECT strftime('%Y-%m-%dT%H:%M:%SZ', started / 1000, 'unixepoch') FROM snapshot WHERE snapshot = v.since) AS since, (SELECT strftime('%Y-%m-%dT%H:%M:%SZ', started / 1000, 'unixepoch') FROM snapshot WHERE snapshot = CASE WHEN v.until <= n.newest THEN v.until END) AS until,
    v."channel", v."type", v."id", v."title", v."preview", v."link", v."date"
  FROM version_channel_items v, (SELECT max(snapshot) AS newest FROM snapshot WHERE finished IS NOT NULL AND forgotten IS NULL) AS n
  WHERE v.since <= n.newest;
CREATE TABLE version_qr_codes(
  version INTEGER PRIMARY KEY,
  since INTEGER NOT NULL,
  until INTEGER,
  shape INTEGER NOT NULL,
  "id" INTEGER NOT NULL,
  "link" TEXT,
  "name" TEXT,
  "date" TEXT,
  extra TEXT
) STRICT;
CREATE UNIQUE INDEX open_qr_codes ON version_qr_codes("id") WHERE until IS NULL;
CREATE TABLE sample_qr_codes(
  id INTEGER NOT NULL,
  snapshot INTEGER NOT NULL,
  value INTEGER,
  PRIMARY KEY(id, snapshot)
) STRICT, WITHOUT ROWID;
CREATE VIEW qr_codes AS
  SELECT v."id", v."link", (SELECT value FROM sample_qr_codes c WHERE c.id = v.id AND c.snapshot <= n.newest ORDER BY c.snapshot DESC LIMIT 1) AS scans, v."name", v."date"
  FROM version_qr_codes v, (SELECT max(snapshot) AS newest FROM snapshot WHERE finished IS NOT NULL AND forgotten IS NULL) AS n
  WHERE v.since <= n.newest AND (v.until IS NULL OR v.until > n.newest);
CREATE VIEW qr_codes_history AS
  SELECT v.since AS since_snapshot, CASE WHEN v.until <= n.newest THEN v.until END AS until_snapshot,
    (SELECT strftime('%Y-%m-%dT%H:%M:%SZ', started / 1000, 'unixepoch') FROM snapshot WHERE snapshot = v.since) AS since, (SELECT strftime('%Y-%m-%dT%H:%M:%SZ', started / 1000, 'unixepoch') FROM snapshot WHERE snapshot = CASE WHEN v.until <= n.newest THEN v.until END) AS until,
    v."id", v."link", (SELECT value FROM sample_qr_codes c WHERE c.id = v.id AND c.snapshot <= coalesce(CASE WHEN v.until <= n.newest THEN v.until END - 1, n.newest) ORDER BY c.snapshot DESC LIMIT 1) AS scans, v."name", v."date"
  FROM version_qr_codes v, (SELECT max(snapshot) AS newest FROM snapshot WHERE finished IS NOT NULL AND forgotten IS NULL) AS n
  WHERE v.since <= n.newest;
CREATE TABLE version_pixels(
  version INTEGER PRIMARY KEY,
  since INTEGER NOT NULL,
  until INTEGER,
  shape INTEGER NOT NULL,
  "id" INTEGER NOT NULL,
  "type" TEXT,
  "name" TEXT,
  "tag" TEXT,
  "date" TEXT,
  extra TEXT
) STRICT;
CREATE UNIQUE INDEX open_pixels ON version_pixels("id") WHERE until IS NULL;
CREATE VIEW pixels AS
  SELECT v."id", v."type", v."name", v."tag", v."date"
  FROM version_pixels v, (SELECT max(snapshot) AS newest FROM snapshot WHERE finished IS NOT NULL AND forgotten IS NULL) AS n
  WHERE v.since <= n.newest AND (v.until IS NULL OR v.until > n.newest);
CREATE VIEW pixels_history AS
  SELECT v.since AS since_snapshot, CASE WHEN v.until <= n.newest THEN v.until END AS until_snapshot,
    (SELECT strftime('%Y-%m-%dT%H:%M:%SZ', started / 1000, 'unixepoch') FROM snapshot WHERE snapshot = v.since) AS since, (SELECT strftime('%Y-%m-%dT%H:%M:%SZ', started / 1000, 'unixepoch') FROM snapshot WHERE snapshot = CASE WHEN v.until <= n.newest THEN v.until END) AS until,
    v."id", v."type", v."name", v."tag", v."date"
  FROM version_pixels v, (SELECT max(snapshot) AS newest FROM snapshot WHERE finished IS NOT NULL AND forgotten IS NULL) AS n
  WHERE v.since <= n.newest;
CREATE TABLE version_overlays(
  version INTEGER PRIMARY KEY,
  since INTEGER NOT NULL,
  until INTEGER,
  shape INTEGER NOT NULL,
  "id" INTEGER NOT NULL,
  "type" TEXT,
  "name" TEXT,
  "date" TEXT,
  extra TEXT
) STRICT;
CREATE UNIQUE INDEX open_overlays ON version_overlays("id") WHERE until IS NULL;
CREATE VIEW overlays AS
  SELECT v."id", v."type", v."name", v."date"
  FROM version_overlays v, (SELECT max(snapshot) AS newest FROM snapshot WHERE finished IS NOT NULL AND forgotten IS NULL) AS n
  WHERE v.since <= n.newest AND (v.until IS NULL OR v.until > n.newest);
CREATE VIEW overlays_history AS
  SELECT v.since AS since_snapshot, CASE WHEN v.until <= n.newest THEN v.until END AS until_snapshot,
    (SELECT strftime('%Y-%m-%dT%H:%M:%SZ', started / 1000, 'unixepoch') FROM snapshot WHERE snapshot = v.since) AS since, (SELECT strftime('%Y-%m-%dT%H:%M:%SZ', started / 1000, 'unixepoch') FROM snapshot WHERE snapshot = CASE WHEN v.until <= n.newest THEN v.until END) AS until,
    v."id", v."type", v."name", v."date"
  FROM version_overlays v, (SELECT max(snapshot) AS newest FROM snapshot WHERE finished IS NOT NULL AND forgotten IS NULL) AS n
  WHERE v.since <= n.newest;
CREATE TABLE version_splash_pages(
  version INTEGER PRIMARY KEY,
  since INTEGER NOT NULL,
  until INTEGER,
  shape INTEGER NOT NULL,
  "id" INTEGER NOT NULL,
  "name" TEXT,
  "date" TEXT,
  extra TEXT
) STRICT;
CREATE UNIQUE INDEX open_splash_pages ON version_splash_pages("id") WHERE until IS NULL;
CREATE VIEW splash_pages AS
  SELECT v."id", v."name", v."date"
  FROM version_splash_pages v, (SELECT max(snapshot) AS newest FROM snapshot WHERE finished IS NOT NULL AND forgotten IS NULL) AS n
  WHERE v.since <= n.newest AND (v.until IS NULL OR v.until > n.newest);
CREATE VIEW splash_pages_history AS
  SELECT v.since AS since_snapshot, CASE WHEN v.until <= n.newest THEN v.until END AS until_snapshot,
    (SELECT strftime('%Y-%m-%dT%H:%M:%SZ', started / 1000, 'unixepoch') FROM snapshot WHERE snapshot = v.since) AS since, (SELECT strftime('%Y-%m-%dT%H:%M:%SZ', started / 1000, 'unixepoch') FROM snapshot WHERE snapshot = CASE WHEN v.until <= n.newest THEN v.until END) AS until,
    v."id", v."name", v."date"
  FROM version_splash_pages v, (SELECT max(snapshot) AS newest FROM snapshot WHERE finished IS NOT NULL AND forgotten IS NULL) AS n
  WHERE v.since <= n.newest;
CREATE VIEW snapshots AS
  SELECT s.snapshot, s.status,
    strftime('%Y-%m-%dT%H:%M:%SZ', s.started / 1000, 'unixepoch') AS started,
    strftime('%Y-%m-%dT%H:%M:%SZ', s.finished / 1000, 'unixepoch') AS finished,
    s.tag, sum(r.records) AS records, sum(r.added) AS added, sum(r.changed) AS changed,
    sum(r.removed) AS removed, s.requests, lower(hex(s.digest)) AS digest
  FROM snapshot s JOIN snapshot_resource r USING (snapshot)
  WHERE s.finished IS NOT NULL AND s.forgotten IS NULL
  GROUP BY s.snapshot ORDER BY s.snapshot;
CREATE VIEW qr_scans AS
  SELECT c.id AS code,
    strftime('%Y-%m-%dT%H:%M:%SZ', s.started / 1000, 'unixepoch') AS time, c.value AS scans
  FROM sample_qr_codes c JOIN snapshot s USING (snapshot)
  WHERE s.finished IS NOT NULL AND c.value IS NOT NULL ORDER BY c.id, c.snapshot;
CREATE VIEW qr_statistics AS
  SELECT c.id AS code,
    strftime('%Y-%m-%dT%H:%M:%SZ', s.started / 1000, 'unixepoch') AS time, c.scans,
    c.body AS statistics
  FROM statistics_qr_codes c JOIN snapshot s USING (snapshot)
  WHERE s.finished IS NOT NULL ORDER BY c.id, c.snapshot;
CREATE TABLE step(
  run INTEGER NOT NULL,
  step INTEGER NOT NULL,
  spec TEXT NOT NULL,
  state TEXT NOT NULL,
  attempts INTEGER NOT NULL,
  sent INTEGER,
  answered INTEGER,
  id INTEGER,
  message TEXT,
  verified TEXT,
  remark TEXT,
  PRIMARY KEY(run, step)
) STRICT, WITHOUT ROWID;
CREATE TABLE id_map(
  origin TEXT NOT NULL DEFAULT '',
  resource TEXT NOT NULL,
  old INTEGER NOT NULL,
  new INTEGER NOT NULL,
  run INTEGER NOT NULL,
  PRIMARY KEY(origin, resource, old)
) STRICT, WITHOUT ROWID;
CREATE VIEW runs AS
  SELECT r.run, r.command, r.status,
    strftime('%Y-%m-%dT%H:%M:%SZ', r.started / 1000, 'unixepoch') AS started,
    strftime('%Y-%m-%dT%H:%M:%SZ', r.finished / 1000, 'unixepoch') AS finished,
    r.before AS snapshot_before, r.after AS snapshot_after,
    count(s.step) AS steps,
    count(*) FILTER (WHERE s.state = 'done') AS done,
    count(*) FILTER (WHERE s.state = 'refused') AS refused,
    count(*) FILTER (WHERE s.state = 'skipped') AS skipped,
    count(*) FILTER (WHERE s.state = 'unknown') AS unknown,
    count(*) FILTER (WHERE s.verified = 'verified') AS verified,
    r.requests
  FROM run r LEFT JOIN step s USING (run) GROUP BY r.run ORDER BY r.run;
