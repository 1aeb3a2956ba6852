-- How are runs laid on a grid of cells, and what takes the place of dice?

-- How an evaluated run was scored, as JSON; NULL for a live run.
CREATE OR REPLACE MACRO evaluation_of(settings) AS settings -> '$.evaluation';

-- Whole cells in a stretch of seconds, 1 at the least.
CREATE OR REPLACE MACRO cells_of(seconds, cell_us) AS
    greatest(1, round(seconds * 1e6 / cell_us)::BIGINT);

-- A number in [0, 1), the same for the same seed, budget, draw and merge: 53 bits of a hash. Of a
-- text, because DuckDB's hash of several numbers at once is no dice: those of one draw go together.
CREATE OR REPLACE MACRO chance(seed, budget, draw, merge) AS
    (hash(concat_ws('/', seed, budget, draw, merge)) >> 11) / 9007199254740992.0;
