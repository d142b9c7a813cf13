-- The order book of a small shop. Everything in it is made up.

CREATE TABLE orders (
    order_id TEXT PRIMARY KEY,
    customer TEXT NOT NULL,
    item     TEXT NOT NULL,
    quantity INTEGER NOT NULL,
    placed   TEXT NOT NULL,
    status   TEXT NOT NULL,
    carrier  TEXT,
    expected TEXT
);

INSERT INTO orders VALUES
    ('order_1038', 'Mira',  'desk lamp',        1, '2026-10-27', 'delivered',  'Northline', '2026-10-31'),
    ('order_1039', 'Jonas', 'wall clock',       2, '2026-10-30', 'delivered',  'Northline', '2026-11-04'),
    ('order_1040', 'Mira',  'bookend pair',     1, '2026-11-03', 'returned',   'Ferry Post', '2026-11-09'),
    ('order_1041', 'Aiko',  'tea kettle',       1, '2026-11-16', 'cancelled',  NULL,        NULL),
    ('order_1042', 'Mira',  'walnut shelf',     3, '2026-11-21', 'in transit', 'Northline', '2026-12-03'),
    ('order_1043', 'Jonas', 'picture frame',    4, '2026-11-24', 'packed',     'Ferry Post', '2026-12-05'),
    ('order_1044', 'Aiko',  'linen curtain',    2, '2026-11-28', 'in transit', 'Northline', '2026-12-04'),
    ('order_1045', 'Tomas', 'reading chair',    1, '2026-11-29', 'placed',     NULL,        NULL);

CREATE TABLE policies (
    topic TEXT PRIMARY KEY,
    days  INTEGER NOT NULL,
    text  TEXT NOT NULL
);

INSERT INTO policies VALUES
    ('refund', 30, 'Unused items can be sent back within 30 days of delivery; the money is back within a week.');
