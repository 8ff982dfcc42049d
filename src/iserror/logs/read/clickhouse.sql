-- The log in ClickHouse. A shipper inserts `line` alone, as it stands in the file; every other column is computed from
-- it, so that all shippers do the same and what is read back is what was written.
CREATE TABLE IF NOT EXISTS iserror_log
(
    line String CODEC(ZSTD(3)),

    -- What Python reads as JSON and ClickHouse does not: NaN, Infinity and lone surrogates are mended, with 0; and of a
    -- line that a full disk tore, the whole one that stands behind it is taken. These columns are not stored. Whole
    -- lines are emptied first, since the expressions are run on every line.
    mended String ALIAS replaceRegexpAll(
        replaceAll(if(isValidJSON(line), '', line), '\\\\', '/'),
        '-?(NaN|Infinity)|\\\\u[dD][89a-fA-F][0-9a-fA-F]{2}', '0'),
    json String ALIAS multiIf(
        isValidJSON(line), if(match(line, '^\\s*\\{'), line, '{}'),
        isValidJSON(mended), mended, extract(mended, '(?s).*(\\{"timestamp": ".*)')),

    -- One reading of the line for all columns: one for each takes three times as long.
    fields Tuple(
        timestamp String, level String, event String, server String, tool String, request_id String, trace_id String,
        upstream_request_id String, code String, category String, outcome String, duration_ms Float64,
        fingerprint String, exception Array(Tuple(type String)))
        ALIAS JSONExtract(json, 'Tuple(
            timestamp String, level String, event String, server String, tool String, request_id String,
            trace_id String, upstream_request_id String, code String, category String, outcome String,
            duration_ms Float64, fingerprint String, exception Array(Tuple(type String)))'),

    timestamp DateTime64(6, 'UTC')
        MATERIALIZED parseDateTime64BestEffortOrZero(tupleElement(fields, 'timestamp'), 6, 'UTC')
        CODEC(Delta, ZSTD),
    level LowCardinality(String) MATERIALIZED tupleElement(fields, 'level'),
    event LowCardinality(String) MATERIALIZED tupleElement(fields, 'event'),
    server LowCardinality(String) MATERIALIZED tupleElement(fields, 'server'),
    tool LowCardinality(String) MATERIALIZED tupleElement(fields, 'tool'),
    request_id String MATERIALIZED tupleElement(fields, 'request_id'),
    trace_id String MATERIALIZED tupleElement(fields, 'trace_id'),
    upstream_request_id String MATERIALIZED tupleElement(fields, 'upstream_request_id'),
    code LowCardinality(String) MATERIALIZED tupleElement(fields, 'code'),
    category LowCardinality(String) MATERIALIZED tupleElement(fields, 'category'),
    outcome LowCardinality(String) MATERIALIZED tupleElement(fields, 'outcome'),
    duration_ms Float64 MATERIALIZED tupleElement(fields, 'duration_ms'),
    fingerprint String MATERIALIZED tupleElement(fields, 'fingerprint'),
    exception_type LowCardinality(String)
        MATERIALIZED tupleElement(arrayElement(tupleElement(fields, 'exception'), 1), 'type'),

    -- A request id begins with its time, so that rows in its order are nearly in time order.
    INDEX times timestamp TYPE minmax GRANULARITY 1,
    -- Looked up by the whole id, and seldom: a filter of two bytes a row will do.
    INDEX upstream upstream_request_id TYPE bloom_filter(0.01) GRANULARITY 1,
    -- A trace id is random. Kept in its own order it is found, and so is a beginning of it, in one granule of each
    -- part; a bloom filter lets one granule in a hundred of the whole table through, and knows no beginnings.
    PROJECTION by_trace (SELECT trace_id, request_id, timestamp ORDER BY trace_id)
)
ENGINE = MergeTree
-- Not by day: an old log that is shipped at once would have more days than ClickHouse takes partitions in an insert.
PARTITION BY toYYYYMM(timestamp)
ORDER BY (request_id, timestamp)
-- How long it is kept; lines that are no JSON have no time, and go at once.
-- TTL toDateTime(timestamp) + INTERVAL 1 YEAR
-- Most reads are for one call: an eighth of the default reads an eighth of the lines for it.
SETTINGS index_granularity = 1024;
