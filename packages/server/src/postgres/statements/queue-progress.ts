/**
 * How far the service of each queue has come (postgres/queue-progress.ts): what fair order starts from in a
 * process that claims nothing, or has just begun.
 */
import { statement } from '../statement.ts'
import { unheld } from './held.ts'

/**
 * The noted tag of each lane (domain/route.ts), or the lowest beyond it that waits unclaimed: a few steps
 * along the claim index, which start where the service stands, because what lies before are mostly entries of
 * rows that were claimed already. Of a tenant's functions as many are looked at as one look can bear.
 */
export const readQueueProgress = statement<
  { readonly queue: string; readonly tag: number },
  [
    lanes: readonly string[],
    queues: readonly string[],
    tenantIds: readonly (string | null)[],
    handlers: readonly string[],
  ]
>(
  'queue_progress_read',
  `
SELECT asked.lane AS queue, greatest(noted.tag, waiting.tag, 0) AS tag
FROM unnest($1::text[], $2::text[], $3::uuid[]) AS asked (lane, queue, tenant_id)
LEFT JOIN LATERAL (
  SELECT progress.virtual_time AS tag FROM belfry.queue_progress AS progress
  WHERE progress.queue = asked.lane
  OFFSET 0
) AS noted ON true
LEFT JOIN LATERAL (
  SELECT min(first.tag) AS tag
  FROM (
    SELECT kind.handler FROM unnest($4::text[]) AS kind (handler) WHERE asked.tenant_id IS NULL
    UNION ALL
    (SELECT job.handler FROM belfry.job
     WHERE job.tenant_id = asked.tenant_id AND job.handler LIKE 'function:%' ORDER BY job.id DESC LIMIT 100)
  ) AS kind
  CROSS JOIN LATERAL (
    SELECT free.tag FROM belfry.ready AS free
    WHERE free.queue = asked.queue AND free.handler = kind.handler AND ${unheld('free')}
      AND free.gate IS NULL AND free.tag > coalesce(noted.tag, '-infinity')
    ORDER BY free.tag, free.run_id
    LIMIT 1
  ) AS first
) AS waiting ON true`,
)

/** Notes claimed tags, in one order of queues for all processes. The highest stays. */
export const noteQueueProgress = statement<never, [queues: readonly string[], tags: readonly number[]]>(
  'queue_progress_note',
  `
INSERT INTO belfry.queue_progress AS progress (queue, virtual_time)
SELECT queue, tag FROM unnest($1::text[], $2::float8[]) AS claimed (queue, tag) ORDER BY queue
ON CONFLICT (queue) DO UPDATE
SET virtual_time = greatest(progress.virtual_time, excluded.virtual_time), noted_at = belfry.now()`,
)

/** Forgets queues of which nothing was noted for so many days. */
export const forgetIdleQueues = statement<never, [days: number]>(
  'queue_progress_forget',
  `DELETE FROM belfry.queue_progress WHERE noted_at < belfry.now() - $1::int * interval '1 day'`,
)
