-- A window is a row of its own whenever it began: a clock that was set back repeats an hour. Ids
-- grow as time was lived, whatever the clock said.
CREATE TABLE lived (
  id INTEGER PRIMARY KEY AUTOINCREMENT, uuid TEXT NOT NULL, start INTEGER NOT NULL,
  finish INTEGER NOT NULL, is_hourly INTEGER NOT NULL DEFAULT 0, data BLOB NOT NULL);
INSERT INTO lived (uuid, start, finish, is_hourly, data)
  SELECT uuid, start, finish, finish - start >= 1800000000000, data FROM window
  ORDER BY start, uuid;
DROP TABLE window;
ALTER TABLE lived RENAME TO window;
CREATE INDEX window_by_start ON window (start);
CREATE INDEX window_to_roll_up ON window (uuid) WHERE NOT is_hourly;
CREATE TABLE holding (
  uuid TEXT NOT NULL, since INTEGER NOT NULL, workload TEXT NOT NULL, seen INTEGER NOT NULL,
  PRIMARY KEY (uuid, since, workload)) WITHOUT ROWID
