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
CREATE TABLE unused_template(shape INTEGER PRIMARY KEY) STRICT;
CREATE TABLE log_mark(mark BLOB NOT NULL) STRICT;
CREATE TABLE sent(
  resource TEXT NOT NULL,
  key TEXT NOT NULL,
  field TEXT NOT NULL,
  value TEXT NOT NULL,
  sent INTEGER NOT NULL,
  since INTEGER NOT NULL,
  until INTEGER,
  PRIMARY KEY(resource, key, field, since)
) STRICT, WITHOUT ROWID;
CREATE TABLE sent_correction(
  resource TEXT NOT NULL,
  key TEXT NOT NULL,
  field TEXT NOT NULL,
  PRIMARY KEY(resource, key, field)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER snapshot_insert BEFORE INSERT ON snapshot WHEN
  NEW.finished IS NOT NULL OR NEW.digest IS NOT NULL OR NEW.forgotten IS NOT NULL
  OR NEW.snapshot <= (SELECT max(snapshot) FROM snapshot)
BEGIN SELECT RAISE(ROLLBACK, 'a finished snapshot is read-only'); END;
CREATE TRIGGER snapshot_update BEFORE UPDATE ON snapshot WHEN
  NEW.snapshot IS NOT OLD.snapshot OR (OLD.digest IS NOT NULL AND (
    (OLD.forgotten IS NOT NULL AND NEW.forgotten IS NOT OLD.forgotten)
    OR NEW."status" IS NOT OLD."status" OR NEW."started" IS NOT OLD."started" OR NEW."touched" IS NOT OLD."touched" OR NEW."finished" IS NOT OLD."finished" OR NEW."tag" IS NOT OLD."tag" OR NEW."scope" IS NOT OLD."scope" OR NEW."requests" IS NOT OLD."requests" OR NEW."throttled" IS NOT OLD."throttled" OR NEW."waited" IS NOT OLD."waited" OR NEW."digest" IS NOT OLD."digest" OR NEW."chain" IS NOT OLD."chain"))
BEGIN SELECT RAISE(ROLLBACK, 'a finished snapshot is read-only'); END;
CREATE TRIGGER snapshot_delete BEFORE DELETE ON snapshot WHEN
  OLD.digest IS NOT NULL
BEGIN SELECT RAISE(ROLLBACK, 'a finished snapshot is read-only'); END;
CREATE TRIGGER snapshot_resource_insert BEFORE INSERT ON snapshot_resource WHEN
  EXISTS(SELECT 1 FROM snapshot WHERE snapshot = NEW.snapshot AND digest IS NOT NULL)
BEGIN SELECT RAISE(ROLLBACK, 'a finished snapshot is read-only'); END;
CREATE TRIGGER snapshot_resource_update BEFORE UPDATE ON snapshot_resource WHEN
  EXISTS(SELECT 1 FROM snapshot WHERE snapshot = OLD.snapshot AND digest IS NOT NULL) OR EXISTS(SELECT 1 FROM snapshot WHERE snapshot = NEW.snapshot AND digest IS NOT NULL)
BEGIN SELECT RAISE(ROLLBACK, 'a finished snapshot is read-only'); END;
CREATE TRIGGER snapshot_resource_delete BEFORE DELETE ON snapshot_resource WHEN
  EXISTS(SELECT 1 FROM snapshot WHERE snapshot = OLD.snapshot AND digest IS NOT NULL)
BEGIN SELECT RAISE(ROLLBACK, 'a finished snapshot is read-only'); END;
CREATE TRIGGER shape_insert BEFORE INSERT ON shape WHEN
  EXISTS(SELECT 1 FROM shape WHERE shape = NEW.shape OR template = NEW.template)
BEGIN SELECT RAISE(ROLLBACK, 'a finished snapshot is read-only'); END;
CREATE TRIGGER shape_update BEFORE UPDATE ON shape WHEN
  1
BEGIN SELECT RAISE(ROLLBACK, 'a finished snapshot is read-only'); END;
CREATE TRIGGER shape_delete BEFORE DELETE ON shape WHEN
  OLD.shape NOT IN (SELECT shape FROM unused_template)
BEGIN SELECT RAISE(ROLLBACK, 'a finished snapshot is read-only'); END;
CREATE TRIGGER sent_insert BEFORE INSERT ON sent WHEN
  EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= NEW.since AND digest IS NOT NULL)
  AND NOT EXISTS(SELECT 1 FROM sent_correction c WHERE c.resource = NEW.resource
    AND c.key = NEW.key AND c.field = NEW.field)
BEGIN SELECT RAISE(ROLLBACK, 'a finished snapshot is read-only'); END;
CREATE TRIGGER sent_update BEFORE UPDATE ON sent WHEN
  (((NEW."resource" IS NOT OLD."resource" OR NEW."key" IS NOT OLD."key" OR NEW."field" IS NOT OLD."field" OR NEW."value" IS NOT OLD."value" OR NEW."sent" IS NOT OLD."sent") AND (EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= OLD.since AND snapshot < coalesce(OLD.until, 9223372036854775807)
    AND digest IS NOT NULL AND forgotten IS NULL)
    OR EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= NEW.since AND snapshot < coalesce(NEW.until, 9223372036854775807)
    AND digest IS NOT NULL AND forgotten IS NULL)))
  OR (OLD.since <> NEW.since AND EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= min(OLD.since, NEW.since) AND snapshot < max(OLD.since, NEW.since)
    AND digest IS NOT NULL AND forgotten IS NULL))
  OR (coalesce(OLD.until, 9223372036854775807) <> coalesce(NEW.until, 9223372036854775807) AND EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= min(coalesce(OLD.until, 9223372036854775807), coalesce(NEW.until, 9223372036854775807)) AND snapshot < max(coalesce(OLD.until, 9223372036854775807), coalesce(NEW.until, 9223372036854775807))
    AND digest IS NOT NULL AND forgotten IS NULL)))
  AND NOT (EXISTS(SELECT 1 FROM sent_correction c WHERE c.resource = OLD.resource
    AND c.key = OLD.key AND c.field = OLD.field) AND EXISTS(SELECT 1 FROM sent_correction c WHERE c.resource = NEW.resource
    AND c.key = NEW.key AND c.field = NEW.field))
BEGIN SELECT RAISE(ROLLBACK, 'a finished snapshot is read-only'); END;
CREATE TRIGGER sent_delete BEFORE DELETE ON sent WHEN
  EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= OLD.since AND snapshot < coalesce(OLD.until, 9223372036854775807)
    AND digest IS NOT NULL AND forgotten IS NULL) AND NOT EXISTS(SELECT 1 FROM sent_correction c WHERE c.resource = OLD.resource
    AND c.key = OLD.key AND c.field = OLD.field)
BEGIN SELECT RAISE(ROLLBACK, 'a finished snapshot is read-only'); END;
CREATE TRIGGER version_account_insert BEFORE INSERT ON version_account WHEN
  NEW.until IS NOT NULL
  OR EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= NEW.since AND digest IS NOT NULL)
  OR EXISTS(SELECT 1 FROM version_account WHERE version = NEW.version)
  OR EXISTS(SELECT 1 FROM version_account WHERE "id" = NEW."id" AND until IS NULL AND since < NEW.since)
BEGIN SELECT RAISE(ROLLBACK, 'a finished snapshot is read-only'); END;
CREATE TRIGGER version_account_update BEFORE UPDATE ON version_account WHEN
  NEW.version IS NOT OLD.version OR NEW."id" IS NOT OLD."id"
  OR ((NEW."shape" IS NOT OLD."shape" OR NEW."id" IS NOT OLD."id" OR NEW."email" IS NOT OLD."email" OR NEW."username" IS NOT OLD."username" OR NEW."avatar" IS NOT OLD."avatar" OR NEW."status" IS NOT OLD."status" OR NEW."expires" IS NOT OLD."expires" OR NEW."registered" IS NOT OLD."registered" OR nullif(NEW.extra, char(2)) IS NOT nullif(OLD.extra, char(2)))
    AND (EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= OLD.since AND snapshot < coalesce(OLD.until, 9223372036854775807)
    AND digest IS NOT NULL AND forgotten IS NULL)
    OR EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= NEW.since AND snapshot < coalesce(NEW.until, 9223372036854775807)
    AND digest IS NOT NULL AND forgotten IS NULL)))
  OR (OLD.since <> NEW.since AND EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= min(OLD.since, NEW.since) AND snapshot < max(OLD.since, NEW.since)
    AND digest IS NOT NULL AND forgotten IS NULL))
  OR (coalesce(OLD.until, 9223372036854775807) <> coalesce(NEW.until, 9223372036854775807) AND EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= min(coalesce(OLD.until, 9223372036854775807), coalesce(NEW.until, 9223372036854775807)) AND snapshot < max(coalesce(OLD.until, 9223372036854775807), coalesce(NEW.until, 9223372036854775807))
    AND digest IS NOT NULL AND forgotten IS NULL))
BEGIN SELECT RAISE(ROLLBACK, 'a finished snapshot is read-only'); END;
CREATE TRIGGER version_account_delete BEFORE DELETE ON version_account WHEN
  EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= OLD.since AND snapshot < coalesce(OLD.until, 9223372036854775807)
    AND digest IS NOT NULL AND forgotten IS NULL)
BEGIN SELECT RAISE(ROLLBACK, 'a finished snapshot is read-only'); END;
CREATE TRIGGER version_domains_insert BEFORE INSERT ON version_domains WHEN
  NEW.until IS NOT NULL
  OR EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= NEW.since AND digest IS NOT NULL)
  OR EXISTS(SELECT 1 FROM version_domains WHERE version = NEW.version)
  OR EXISTS(SELECT 1 FROM version_domains WHERE "id" = NEW."id" AND until IS NULL AND since < NEW.since)
BEGIN SELECT RAISE(ROLLBACK, 'a finished snapshot is read-only'); END;
CREATE TRIGGER version_domains_update BEFORE UPDATE ON version_domains WHEN
  NEW.version IS NOT OLD.version OR NEW."id" IS NOT OLD."id"
  OR ((NEW."shape" IS NOT OLD."shape" OR NEW."id" IS NOT OLD."id" OR NEW."domain" IS NOT OLD."domain" OR NEW."redirectroot" IS NOT OLD."redirectroot" OR NEW."redirect404" IS NOT OLD."redirect404" OR nullif(NEW.extra, char(2)) IS NOT nullif(OLD.extra, char(2)))
    AND (EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= OLD.since AND snapshot < coalesce(OLD.until, 9223372036854775807)
    AND digest IS NOT NULL AND forgotten IS NULL)
    OR EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= NEW.since AND snapshot < coalesce(NEW.until, 9223372036854775807)
    AND digest IS NOT NULL AND forgotten IS NULL)))
  OR (OLD.since <> NEW.since AND EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= min(OLD.since, NEW.since) AND snapshot < max(OLD.since, NEW.since)
    AND digest IS NOT NULL AND forgotten IS NULL))
  OR (coalesce(OLD.until, 9223372036854775807) <> coalesce(NEW.until, 9223372036854775807) AND EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= min(coalesce(OLD.until, 9223372036854775807), coalesce(NEW.until, 9223372036854775807)) AND snapshot < max(coalesce(OLD.until, 9223372036854775807), coalesce(NEW.until, 9223372036854775807))
    AND digest IS NOT NULL AND forgotten IS NULL))
BEGIN SELECT RAISE(ROLLBACK, 'a finished snapshot is read-only'); END;
CREATE TRIGGER version_domains_delete BEFORE DELETE ON version_domains WHEN
  EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= OLD.since AND snapshot < coalesce(OLD.until, 9223372036854775807)
    AND digest IS NOT NULL AND forgotten IS NULL)
BEGIN SELECT RAISE(ROLLBACK, 'a finished snapshot is read-only'); END;
CREATE TRIGGER version_campaigns_insert BEFORE INSERT ON version_campaigns WHEN
  NEW.until IS NOT NULL
  OR EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= NEW.since AND digest IS NOT NULL)
  OR EXISTS(SELECT 1 FROM version_campaigns WHERE version = NEW.version)
  OR EXISTS(SELECT 1 FROM version_campaigns WHERE "id" = NEW."id" AND until IS NULL AND since < NEW.since)
BEGIN SELECT RAISE(ROLLBACK, 'a finished snapshot is read-only'); END;
CREATE TRIGGER version_campaigns_update BEFORE UPDATE ON version_campaigns WHEN
  NEW.version IS NOT OLD.version OR NEW."id" IS NOT OLD."id"
  OR ((NEW."shape" IS NOT OLD."shape" OR NEW."id" IS NOT OLD."id" OR NEW."name" IS NOT OLD."name" OR NEW."public" IS NOT OLD."public" OR NEW."rotator" IS NOT OLD."rotator" OR NEW."list" IS NOT OLD."list" OR nullif(NEW.extra, char(2)) IS NOT nullif(OLD.extra, char(2)))
    AND (EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= OLD.since AND snapshot < coalesce(OLD.until, 9223372036854775807)
    AND digest IS NOT NULL AND forgotten IS NULL)
    OR EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= NEW.since AND snapshot < coalesce(NEW.until, 9223372036854775807)
    AND digest IS NOT NULL AND forgotten IS NULL)))
  OR (OLD.since <> NEW.since AND EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= min(OLD.since, NEW.since) AND snapshot < max(OLD.since, NEW.since)
    AND digest IS NOT NULL AND forgotten IS NULL))
  OR (coalesce(OLD.until, 9223372036854775807) <> coalesce(NEW.until, 9223372036854775807) AND EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= min(coalesce(OLD.until, 9223372036854775807), coalesce(NEW.until, 9223372036854775807)) AND snapshot < max(coalesce(OLD.until, 9223372036854775807), coalesce(NEW.until, 9223372036854775807))
    AND digest IS NOT NULL AND forgotten IS NULL))
BEGIN SELECT RAISE(ROLLBACK, 'a finished snapshot is read-only'); END;
CREATE TRIGGER version_campaigns_delete BEFORE DELETE ON version_campaigns WHEN
  EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= OLD.since AND snapshot < coalesce(OLD.until, 9223372036854775807)
    AND digest IS NOT NULL AND forgotten IS NULL)
BEGIN SELECT RAISE(ROLLBACK, 'a finished snapshot is read-only'); END;
CREATE TRIGGER version_channels_insert BEFORE INSERT ON version_channels WHEN
  NEW.until IS NOT NULL
  OR EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= NEW.since AND digest IS NOT NULL)
  OR EXISTS(SELECT 1 FROM version_channels WHERE version = NEW.version)
  OR EXISTS(SELECT 1 FROM version_channels WHERE "id" = NEW."id" AND until IS NULL AND since < NEW.since)
BEGIN SELECT RAISE(ROLLBACK, 'a finished snapshot is read-only'); END;
CREATE TRIGGER version_channels_update BEFORE UPDATE ON version_channels WHEN
  NEW.version IS NOT OLD.version OR NEW."id" IS NOT OLD."id"
  OR ((NEW."shape" IS NOT OLD."shape" OR NEW."id" IS NOT OLD."id" OR NEW."name" IS NOT OLD."name" OR NEW."description" IS NOT OLD."description" OR NEW."color" IS NOT OLD."color" OR NEW."starred" IS NOT OLD."starred" OR nullif(NEW.extra, char(2)) IS NOT nullif(OLD.extra, char(2)))
    AND (EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= OLD.since AND snapshot < coalesce(OLD.until, 9223372036854775807)
    AND digest IS NOT NULL AND forgotten IS NULL)
    OR EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= NEW.since AND snapshot < coalesce(NEW.until, 9223372036854775807)
    AND digest IS NOT NULL AND forgotten IS NULL)))
  OR (OLD.since <> NEW.since AND EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= min(OLD.since, NEW.since) AND snapshot < max(OLD.since, NEW.since)
    AND digest IS NOT NULL AND forgotten IS NULL))
  OR (coalesce(OLD.until, 9223372036854775807) <> coalesce(NEW.until, 9223372036854775807) AND EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= min(coalesce(OLD.until, 9223372036854775807), coalesce(NEW.until, 9223372036854775807)) AND snapshot < max(coalesce(OLD.until, 9223372036854775807), coalesce(NEW.until, 9223372036854775807))
    AND digest IS NOT NULL AND forgotten IS NULL))
BEGIN SELECT RAISE(ROLLBACK, 'a finished snapshot is read-only'); END;
CREATE TRIGGER version_channels_delete BEFORE DELETE ON version_channels WHEN
  EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= OLD.since AND snapshot < coalesce(OLD.until, 9223372036854775807)
    AND digest IS NOT NULL AND forgotten IS NULL)
BEGIN SELECT RAISE(ROLLBACK, 'a finished snapshot is read-only'); END;
CREATE TRIGGER version_channel_items_insert BEFORE INSERT ON version_channel_items WHEN
  NEW.until IS NOT NULL
  OR EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= NEW.since AND digest IS NOT NULL)
  OR EXISTS(SELECT 1 FROM version_channel_items WHERE version = NEW.version)
  OR EXISTS(SELECT 1 FROM version_channel_items WHERE "channel" = NEW."channel" AND "type" = NEW."type" AND "id" = NEW."id" AND until IS NULL AND since < NEW.since)
BEGIN SELECT RAISE(ROLLBACK, 'a finished snapshot is read-only'); END;
CREATE TRIGGER version_channel_items_update BEFORE UPDATE ON version_channel_items WHEN
  NEW.version IS NOT OLD.version OR NEW."channel" IS NOT OLD."channel" OR NEW."type" IS NOT OLD."type" OR NEW."id" IS NOT OLD."id"
  OR ((NEW."shape" IS NOT OLD."shape" OR NEW."channel" IS NOT OLD."channel" OR NEW."type" IS NOT OLD."type" OR NEW."id" IS NOT OLD."id" OR NEW."title" IS NOT OLD."title" OR NEW."preview" IS NOT OLD."preview" OR NEW."link" IS NOT OLD."link" OR NEW."date" IS NOT OLD."date" OR nullif(NEW.extra, char(2)) IS NOT nullif(OLD.extra, char(2)))
    AND (EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= OLD.since AND snapshot < coalesce(OLD.until, 9223372036854775807)
    AND digest IS NOT NULL AND forgotten IS NULL)
    OR EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= NEW.since AND snapshot < coalesce(NEW.until, 9223372036854775807)
    AND digest IS NOT NULL AND forgotten IS NULL)))
  OR (OLD.since <> NEW.since AND EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= min(OLD.since, NEW.since) AND snapshot < max(OLD.since, NEW.since)
    AND digest IS NOT NULL AND forgotten IS NULL))
  OR (coalesce(OLD.until, 9223372036854775807) <> coalesce(NEW.until, 9223372036854775807) AND EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= min(coalesce(OLD.until, 9223372036854775807), coalesce(NEW.until, 9223372036854775807)) AND snapshot < max(coalesce(OLD.until, 9223372036854775807), coalesce(NEW.until, 9223372036854775807))
    AND digest IS NOT NULL AND forgotten IS NULL))
BEGIN SELECT RAISE(ROLLBACK, 'a finished snapshot is read-only'); END;
CREATE TRIGGER version_channel_items_delete BEFORE DELETE ON version_channel_items WHEN
  EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= OLD.since AND snapshot < coalesce(OLD.until, 9223372036854775807)
    AND digest IS NOT NULL AND forgotten IS NULL)
BEGIN SELECT RAISE(ROLLBACK, 'a finished snapshot is read-only'); END;
CREATE TRIGGER version_qr_codes_insert BEFORE INSERT ON version_qr_codes WHEN
  NEW.until IS NOT NULL
  OR EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= NEW.since AND digest IS NOT NULL)
  OR EXISTS(SELECT 1 FROM version_qr_codes WHERE version = NEW.version)
  OR EXISTS(SELECT 1 FROM version_qr_codes WHERE "id" = NEW."id" AND until IS NULL AND since < NEW.since)
BEGIN SELECT RAISE(ROLLBACK, 'a finished snapshot is read-only'); END;
CREATE TRIGGER version_qr_codes_update BEFORE UPDATE ON version_qr_codes WHEN
  NEW.version IS NOT OLD.version OR NEW."id" IS NOT OLD."id"
  OR ((NEW."shape" IS NOT OLD."shape" OR NEW."id" IS NOT OLD."id" OR NEW."link" IS NOT OLD."link" OR NEW."name" IS NOT OLD."name" OR NEW."date" IS NOT OLD."date" OR nullif(NEW.extra, char(2)) IS NOT nullif(OLD.extra, char(2)))
    AND (EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= OLD.since AND snapshot < coalesce(OLD.until, 9223372036854775807)
    AND digest IS NOT NULL AND forgotten IS NULL)
    OR EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= NEW.since AND snapshot < coalesce(NEW.until, 9223372036854775807)
    AND digest IS NOT NULL AND forgotten IS NULL)))
  OR (OLD.since <> NEW.since AND EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= min(OLD.since, NEW.since) AND snapshot < max(OLD.since, NEW.since)
    AND digest IS NOT NULL AND forgotten IS NULL))
  OR (coalesce(OLD.until, 9223372036854775807) <> coalesce(NEW.until, 9223372036854775807) AND EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= min(coalesce(OLD.until, 9223372036854775807), coalesce(NEW.until, 9223372036854775807)) AND snapshot < max(coalesce(OLD.until, 9223372036854775807), coalesce(NEW.until, 9223372036854775807))
    AND digest IS NOT NULL AND forgotten IS NULL))
BEGIN SELECT RAISE(ROLLBACK, 'a finished snapshot is read-only'); END;
CREATE TRIGGER version_qr_codes_delete BEFORE DELETE ON version_qr_codes WHEN
  EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= OLD.since AND snapshot < coalesce(OLD.until, 9223372036854775807)
    AND digest IS NOT NULL AND forgotten IS NULL)
BEGIN SELECT RAISE(ROLLBACK, 'a finished snapshot is read-only'); END;
CREATE TRIGGER sample_qr_codes_insert BEFORE INSERT ON sample_qr_codes WHEN
  EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= NEW.snapshot AND digest IS NOT NULL)
BEGIN SELECT RAISE(ROLLBACK, 'a finished snapshot is read-only'); END;
CREATE TRIGGER sample_qr_codes_update BEFORE UPDATE ON sample_qr_codes WHEN
  EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= OLD.snapshot AND digest IS NOT NULL) OR EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= NEW.snapshot AND digest IS NOT NULL)
BEGIN SELECT RAISE(ROLLBACK, 'a finished snapshot is read-only'); END;
CREATE TRIGGER sample_qr_codes_delete BEFORE DELETE ON sample_qr_codes WHEN
  EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= OLD.snapshot AND digest IS NOT NULL)
BEGIN SELECT RAISE(ROLLBACK, 'a finished snapshot is read-only'); END;
CREATE TRIGGER statistics_qr_codes_insert BEFORE INSERT ON statistics_qr_codes WHEN
  EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= NEW.snapshot AND digest IS NOT NULL)
BEGIN SELECT RAISE(ROLLBACK, 'a finished snapshot is read-only'); END;
CREATE TRIGGER statistics_qr_codes_update BEFORE UPDATE ON statistics_qr_codes WHEN
  EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= OLD.snapshot AND digest IS NOT NULL) OR EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= NEW.snapshot AND digest IS NOT NULL)
BEGIN SELECT RAISE(ROLLBACK, 'a finished snapshot is read-only'); END;
CREATE TRIGGER statistics_qr_codes_delete BEFORE DELETE ON statistics_qr_codes WHEN
  EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= OLD.snapshot AND digest IS NOT NULL)
BEGIN SELECT RAISE(ROLLBACK, 'a finished snapshot is read-only'); END;
CREATE TRIGGER version_pixels_insert BEFORE INSERT ON version_pixels WHEN
  NEW.until IS NOT NULL
  OR EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= NEW.since AND digest IS NOT NULL)
  OR EXISTS(SELECT 1 FROM version_pixels WHERE version = NEW.version)
  OR EXISTS(SELECT 1 FROM version_pixels WHERE "id" = NEW."id" AND until IS NULL AND since < NEW.since)
BEGIN SELECT RAISE(ROLLBACK, 'a finished snapshot is read-only'); END;
CREATE TRIGGER version_pixels_update BEFORE UPDATE ON version_pixels WHEN
  NEW.version IS NOT OLD.version OR NEW."id" IS NOT OLD."id"
  OR ((NEW."shape" IS NOT OLD."shape" OR NEW."id" IS NOT OLD."id" OR NEW."type" IS NOT OLD."type" OR NEW."name" IS NOT OLD."name" OR NEW."tag" IS NOT OLD."tag" OR NEW."date" IS NOT OLD."date" OR nullif(NEW.extra, char(2)) IS NOT nullif(OLD.extra, char(2)))
    AND (EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= OLD.since AND snapshot < coalesce(OLD.until, 9223372036854775807)
    AND digest IS NOT NULL AND forgotten IS NULL)
    OR EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= NEW.since AND snapshot < coalesce(NEW.until, 9223372036854775807)
    AND digest IS NOT NULL AND forgotten IS NULL)))
  OR (OLD.since <> NEW.since AND EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= min(OLD.since, NEW.since) AND snapshot < max(OLD.since, NEW.since)
    AND digest IS NOT NULL AND forgotten IS NULL))
  OR (coalesce(OLD.until, 9223372036854775807) <> coalesce(NEW.until, 9223372036854775807) AND EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= min(coalesce(OLD.until, 9223372036854775807), coalesce(NEW.until, 9223372036854775807)) AND snapshot < max(coalesce(OLD.until, 9223372036854775807), coalesce(NEW.until, 9223372036854775807))
    AND digest IS NOT NULL AND forgotten IS NULL))
BEGIN SELECT RAISE(ROLLBACK, 'a finished snapshot is read-only'); END;
CREATE TRIGGER version_pixels_delete BEFORE DELETE ON version_pixels WHEN
  EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= OLD.since AND snapshot < coalesce(OLD.until, 9223372036854775807)
    AND digest IS NOT NULL AND forgotten IS NULL)
BEGIN SELECT RAISE(ROLLBACK, 'a finished snapshot is read-only'); END;
CREATE TRIGGER version_overlays_insert BEFORE INSERT ON version_overlays WHEN
  NEW.until IS NOT NULL
  OR EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= NEW.since AND digest IS NOT NULL)
  OR EXISTS(SELECT 1 FROM version_overlays WHERE version = NEW.version)
  OR EXISTS(SELECT 1 FROM version_overlays WHERE "id" = NEW."id" AND until IS NULL AND since < NEW.since)
BEGIN SELECT RAISE(ROLLBACK, 'a finished snapshot is read-only'); END;
CREATE TRIGGER version_overlays_update BEFORE UPDATE ON version_overlays WHEN
  NEW.version IS NOT OLD.version OR NEW."id" IS NOT OLD."id"
  OR ((NEW."shape" IS NOT OLD."shape" OR NEW."id" IS NOT OLD."id" OR NEW."type" IS NOT OLD."type" OR NEW."name" IS NOT OLD."name" OR NEW."date" IS NOT OLD."date" OR nullif(NEW.extra, char(2)) IS NOT nullif(OLD.extra, char(2)))
    AND (EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= OLD.since AND snapshot < coalesce(OLD.until, 9223372036854775807)
    AND digest IS NOT NULL AND forgotten IS NULL)
    OR EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= NEW.since AND snapshot < coalesce(NEW.until, 9223372036854775807)
    AND digest IS NOT NULL AND forgotten IS NULL)))
  OR (OLD.since <> NEW.since AND EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= min(OLD.since, NEW.since) AND snapshot < max(OLD.since, NEW.since)
    AND digest IS NOT NULL AND forgotten IS NULL))
  OR (coalesce(OLD.until, 9223372036854775807) <> coalesce(NEW.until, 9223372036854775807) AND EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= min(coalesce(OLD.until, 9223372036854775807), coalesce(NEW.until, 9223372036854775807)) AND snapshot < max(coalesce(OLD.until, 9223372036854775807), coalesce(NEW.until, 9223372036854775807))
    AND digest IS NOT NULL AND forgotten IS NULL))
BEGIN SELECT RAISE(ROLLBACK, 'a finished snapshot is read-only'); END;
CREATE TRIGGER version_overlays_delete BEFORE DELETE ON version_overlays WHEN
  EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= OLD.since AND snapshot < coalesce(OLD.until, 9223372036854775807)
    AND digest IS NOT NULL AND forgotten IS NULL)
BEGIN SELECT RAISE(ROLLBACK, 'a finished snapshot is read-only'); END;
CREATE TRIGGER version_splash_pages_insert BEFORE INSERT ON version_splash_pages WHEN
  NEW.until IS NOT NULL
  OR EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= NEW.since AND digest IS NOT NULL)
  OR EXISTS(SELECT 1 FROM version_splash_pages WHERE version = NEW.version)
  OR EXISTS(SELECT 1 FROM version_splash_pages WHERE "id" = NEW."id" AND until IS NULL AND since < NEW.since)
BEGIN SELECT RAISE(ROLLBACK, 'a finished snapshot is read-only'); END;
CREATE TRIGGER version_splash_pages_update BEFORE UPDATE ON version_splash_pages WHEN
  NEW.version IS NOT OLD.version OR NEW."id" IS NOT OLD."id"
  OR ((NEW."shape" IS NOT OLD."shape" OR NEW."id" IS NOT OLD."id" OR NEW."name" IS NOT OLD."name" OR NEW."date" IS NOT OLD."date" OR nullif(NEW.extra, char(2)) IS NOT nullif(OLD.extra, char(2)))
    AND (EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= OLD.since AND snapshot < coalesce(OLD.until, 9223372036854775807)
    AND digest IS NOT NULL AND forgotten IS NULL)
    OR EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= NEW.since AND snapshot < coalesce(NEW.until, 9223372036854775807)
    AND digest IS NOT NULL AND forgotten IS NULL)))
  OR (OLD.since <> NEW.since AND EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= min(OLD.since, NEW.since) AND snapshot < max(OLD.since, NEW.since)
    AND digest IS NOT NULL AND forgotten IS NULL))
  OR (coalesce(OLD.until, 9223372036854775807) <> coalesce(NEW.until, 9223372036854775807) AND EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= min(coalesce(OLD.until, 9223372036854775807), coalesce(NEW.until, 9223372036854775807)) AND snapshot < max(coalesce(OLD.until, 9223372036854775807), coalesce(NEW.until, 9223372036854775807))
    AND digest IS NOT NULL AND forgotten IS NULL))
BEGIN SELECT RAISE(ROLLBACK, 'a finished snapshot is read-only'); END;
CREATE TRIGGER version_splash_pages_delete BEFORE DELETE ON version_splash_pages WHEN
  EXISTS(SELECT 1 FROM snapshot WHERE snapshot >= OLD.since AND snapshot < coalesce(OLD.until, 9223372036854775807)
    AND digest IS NOT NULL AND forgotten IS NULL)
BEGIN SELECT RAISE(ROLLBACK, 'a finished snapshot is read-only'); END;
