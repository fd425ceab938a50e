/**
 *  A resolver is killed -9 in the middle of each statement of its round, one process after another, and in
 * its commit: real processes on a real Postgres, each stopped at its step by a lock that the test holds.
 * What it had begun is as if it had never been, or is whole; whoever comes next starts each task once, and
 * every workflow run ends as it should.
 */
import { expect, it } from 'vitest'
import { eventually } from '../support/running.ts'
import { type Arena, arenaHarness } from './support/arena.ts'

const harness = arenaHarness()
const workflowRuns = 4

interface Step {
  readonly name: string
  /** Of the statement that is stopped; Postgres shows its first 1,024 bytes. */
  readonly text: string
  /** Stops whoever comes by there until the transaction that sends it is over. */
  readonly hold: string
  /** What stands in the way for good. */
  readonly arrange?: string
}

const lock = (table: string, mode: string) => `LOCK TABLE belfry.${table} IN ${mode} MODE`
const turnstile = 'SELECT pg_advisory_xact_lock(60)'
const stoppedBy = (event: string, more = '') => `
  CREATE FUNCTION public.turnstile() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
  BEGIN
    PERFORM pg_advisory_lock_shared(60);
    PERFORM pg_advisory_unlock_shared(60);
    RETURN NEW;
  END $$;
  CREATE ${event} FOR EACH ROW ${more} EXECUTE FUNCTION public.turnstile()`

/** In the order of a round. */
const steps: readonly Step[] = [
  {
    name: 'lock workflow runs',
    text: '%WITH due AS MATERIALIZED%belfry.workflow_event%',
    hold: lock('workflow_progress', 'EXCLUSIVE'),
  },
  {
    name: 'take events',
    text: '%DELETE FROM belfry.workflow_event%',
    hold: lock('workflow_event', 'SHARE ROW EXCLUSIVE'),
  },
  {
    name: 'read the version',
    text: '%FROM belfry.workflow_version%',
    hold: lock('workflow_version', 'ACCESS EXCLUSIVE'),
  },
  {
    name: 'read what tasks run',
    text: '%JOIN belfry.job_version%',
    hold: lock('job_version', 'ACCESS EXCLUSIVE'),
  },
  { name: 'make runs', text: '%INSERT INTO belfry.run %', hold: lock('run', 'SHARE') },
  {
    name: 'save',
    text: '%UPDATE belfry.workflow_progress%',
    hold: turnstile,
    arrange: stoppedBy('TRIGGER turnstile BEFORE UPDATE ON belfry.workflow_progress'),
  },
  {
    name: 'commit',
    text: 'COMMIT',
    hold: turnstile,
    arrange: stoppedBy(
      'CONSTRAINT TRIGGER turnstile AFTER UPDATE ON belfry.workflow_progress DEFERRABLE INITIALLY DEFERRED',
    ),
  },
]

async function isHeld(arena: Arena, { text }: Step): Promise<boolean> {
  const held = await arena.rows(
    `SELECT FROM pg_stat_activity
     WHERE wait_event_type = 'Lock' AND datname = 'belfry' AND usename = 'belfry' AND query ILIKE $1`,
    [text],
  )
  return held.length > 0
}

/** Starts a resolver, kills it where this step holds it, and takes away what stood in the way. */
async function killAt(arena: Arena, step: Step): Promise<void> {
  if (step.arrange !== undefined) await arena.rows(step.arrange)
  const holder = await arena.connect()
  try {
    await holder.query(`BEGIN; ${step.hold}`)
    const victim = arena.spawn(`victim at "${step.name}"`, { BELFRY_ROLES: 'resolver' })
    await eventually(() => isHeld(arena, step), `the resolver at "${step.name}"`, 40_000)
    victim.signal('SIGKILL')
    expect(await victim.ended).toBe('SIGKILL')
  } finally {
    await holder.query('COMMIT')
    await holder.end()
  }
  if (step.arrange !== undefined) await arena.rows('DROP FUNCTION public.turnstile CASCADE')
}

const handlerOf = (arena: Arena) => ({ kind: 'http', url: `${arena.ledger.url}/work` })

it('a resolver that is killed at any step leaves nothing undone and nothing done twice', {
  timeout: 240_000,
}, async () => {
  const arena = await harness.open()
  const api = await arena.start('api', { BELFRY_ROLES: 'api,worker' })
  const handler = handlerOf(arena)
  const tasks = [
    { id: 'a', handler },
    { id: 'b', handler, needs: ['a'] },
    { id: 'each', handler, needs: ['a'], matrix: { n: [1, 2, 3] } },
    { id: 'join', handler, needs: ['b', 'each'] },
  ]
  const applied = await arena.call(api, 'POST', '/v1/workflows', { name: 'flow', tasks })
  expect(applied.status).toBe(200)
  const ids: string[] = []
  for (let n = 0; n < workflowRuns; n++) {
    const begun = await arena.call(api, 'POST', '/v1/workflow-runs', { workflow: 'flow' })
    ids.push(String(begun.body['id']))
  }

  for (const step of steps) await killAt(arena, step)
  // the last of them was killed in its commit: what it had done stands, without anybody having been told
  const [begun] = await arena.rows<{ count: number }>(
    `SELECT count(*)::int AS count FROM belfry.run WHERE workflow_run_id = ANY ($1::uuid[])`,
    [ids],
  )
  expect(begun?.count).toBe(workflowRuns)
  // and again, from where the first tasks have ended
  const ends = () => arena.rows(`SELECT FROM belfry.workflow_event WHERE kind = 'end'`)
  await eventually(async () => (await ends()).length === workflowRuns, 'the ends of the first tasks', 20_000)
  for (const step of steps) await killAt(arena, step)

  await arena.start('heir', { BELFRY_ROLES: 'resolver' })
  const alive = () => arena.rows(`SELECT FROM belfry.workflow_progress`)
  await eventually(async () => (await alive()).length === 0, 'the ends of all workflow runs', 30_000)
  const ended = await arena.rows<{ state: string }>(`SELECT state FROM belfry.workflow_run`)
  expect(ended.map(({ state }) => state)).toEqual(Array.from({ length: workflowRuns }, () => 'succeeded'))
  const runs = await arena.rows<{ count: number }>(
    `SELECT count(*)::int AS count FROM belfry.run GROUP BY workflow_run_id, task, item`,
  )
  expect(runs.map(({ count }) => count)).toEqual(Array.from({ length: 6 * workflowRuns }, () => 1))
  expect(arena.ledger.calls).toHaveLength(6 * workflowRuns)
  expect(
    await arena.rows(`SELECT run_id FROM belfry.task_run UNION ALL SELECT run_id FROM belfry.workflow_event`),
  ).toEqual([])
})
