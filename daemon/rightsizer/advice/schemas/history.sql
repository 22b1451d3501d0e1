-- Times are nanoseconds since the epoch; `data` is a window of `window_codec`.
CREATE TABLE device (uuid TEXT PRIMARY KEY, facts TEXT NOT NULL, seen INTEGER NOT NULL)
  WITHOUT ROWID;
CREATE TABLE window (
  uuid TEXT NOT NULL, start INTEGER NOT NULL, finish INTEGER NOT NULL, data BLOB NOT NULL,
  PRIMARY KEY (uuid, start)) WITHOUT ROWID;
CREATE INDEX window_by_start ON window (start)
