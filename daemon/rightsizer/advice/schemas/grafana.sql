CREATE TABLE grafana_outbox (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    note TEXT NOT NULL
);
CREATE TABLE grafana_regions (
    advice_id TEXT PRIMARY KEY,
    annotation_id INTEGER NOT NULL
) WITHOUT ROWID
