-- `data` is an hour of a model on an engine, as JSON; `start` is in nanoseconds since the epoch.
CREATE TABLE served (
  endpoint TEXT NOT NULL, model TEXT NOT NULL, start INTEGER NOT NULL, data TEXT NOT NULL,
  PRIMARY KEY (endpoint, model, start)) WITHOUT ROWID
