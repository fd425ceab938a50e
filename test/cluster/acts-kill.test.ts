/**
 * A process of the API is killed -9 in the middle of what a person does to a workflow run by hand (rerun,
 * mark, approve, signal, cancel), and in the commit of that: real processes on a real Postgres, each stopped
 * by a lock that the test holds. Nobody knows then whether it was done. It was, wholly, or not at all; and
 * the same request, sent again, brings it to the same end, with each task started as often as once done.
 */
import { expect, it } from 'vitest'
import { eventually } from '../support/running.ts'
import { type Answer, type Arena, arenaHarness } from './support/arena.ts'

const harness = arenaHarness()

interface Act {
  readonly workflow: string
  readonly verb: string
  readonly body: object
  /** How the workflow run stands when it is done. */
  readonly before: Readonly<Record<string, string>>
  readonly after: { readonly state: string; readonly tasks: Readonly<Record<string, string>> }
  /** How many runs each task has had in the end. */
  readonly runs: Readonly<Record<string, number>>
}

const acts: readonly Act[] = [
  {
    workflow: 'breaks',
    verb: 'rerun',
    body: { what: 'failed' },
    before: { a: 'succeeded', b: 'failed', c: 'upstream_failed' },
    after: { state: 'failed', tasks: { a: 'succeeded', b: 'failed', c: 'upstream_failed' } },
    runs: { a: 1, b: 2, c: 0 },
  },
  {
    workflow: 'breaks',
    verb: 'mark',
    body: { tasks: ['b'], state: 'succeeded', reason: 'by hand' },
    before: { a: 'succeeded', b: 'failed', c: 'upstream_failed' },
    after: { state: 'succeeded', tasks: { a: 'succeeded', b: 'succeeded', c: 'succeeded' } },
    runs: { a: 1, b: 1, c: 1 },
  },
  {
    workflow: 'waits',
    verb: 'approve',
    body: { task: 'ask', reason: 'fine' },
    before: { ask: 'started', hear: 'started', d: 'waiting_for_dependencies', e: 'waiting_for_dependencies' },
    after: { state: 'running', tasks: { ask: 'succeeded', hear: 'started', d: 'succeeded' } },
    runs: { d: 1, e: 0, tidy: 0 },
  },
  {
    workflow: 'waits',
    verb: 'signal',
    body: { signal: 'go', payload: { n: 1 } },
    before: { ask: 'started', hear: 'started' },
    after: { state: 'running', tasks: { hear: 'succeeded', ask: 'started', e: 'succeeded' } },
    runs: { d: 0, e: 1, tidy: 0 },
  },
  {
    workflow: 'waits',
    verb: 'cancel',
    body: {},
    before: { ask: 'started', hear: 'started' },
    after: {
      state: 'canceled',
      tasks: { ask: 'canceled', hear: 'canceled', d: 'canceled', tidy: 'succeeded' },
    },
    runs: { d: 0, e: 0, tidy: 1 },
  },
]

const tellsByCommit = `
  CREATE FUNCTION public.turnstile() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
  BEGIN
    PERFORM pg_advisory_lock_shared(61);
    PERFORM pg_advisory_unlock_shared(61);
    RETURN NULL;
  END $$;
  CREATE CONSTRAINT TRIGGER turnstile AFTER INSERT ON belfry.workflow_event DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.kind <> 'end' OR NEW.run_ids IS NULL) EXECUTE FUNCTION public.turnstile()`
const steps = [
  {
    name: 'its event',
    hold: 'LOCK TABLE belfry.workflow_event IN SHARE ROW EXCLUSIVE MODE',
    arrange: undefined,
  },
  { name: 'its commit', hold: 'SELECT pg_advisory_xact_lock(61)', arrange: tellsByCommit },
] as const

async function begin(arena: Arena, workflow: string): Promise<string> {
  const { body } = await arena.call(keeper(arena), 'POST', '/v1/workflow-runs', { workflow })
  return String(body['id'])
}

function keeper(arena: Arena) {
  const node = arena.nodes.get('keeper')
  if (node === undefined) throw new Error('The keeper does not run.')
  return node
}

const tasksOf = async (arena: Arena, id: string) => {
  const { body } = await arena.call(keeper(arena), 'GET', `/v1/workflow-runs/${id}/tasks`)
  return body['tasks'] as readonly { readonly id: string; readonly state: string; readonly runs: number }[]
}

async function stands(arena: Arena, id: string, wanted: Readonly<Record<string, string>>): Promise<boolean> {
  const states = new Map((await tasksOf(arena, id)).map((task) => [task.id, task.state]))
  return Object.entries(wanted).every(([task, state]) => states.get(task) === state)
}

async function killIn(arena: Arena, act: Act, step: (typeof steps)[number]): Promise<void> {
  const what = `${act.verb}, killed at ${step.name}`
  const path = `/v1/workflow-runs/${await begin(arena, act.workflow)}`
  const id = path.split('/').at(-1) ?? ''
  await eventually(() => stands(arena, id, act.before), `${what}: the workflow run before it`, 30_000)
  const victim = await arena.start(`victim ${act.verb} ${step.name}`, { BELFRY_ROLES: 'api' })
  if (step.arrange !== undefined) await arena.rows(step.arrange)
  const holder = await arena.connect()
  const key = `${act.verb}-${step.name.replace(' ', '-')}`
  const send = (node: typeof victim): Promise<Answer> =>
    arena.call(node, 'POST', `${path}/${act.verb}`, act.body, key)
  try {
    await holder.query(`BEGIN; ${step.hold}`)
    let answer: Answer | undefined
    const sent = send(victim)
      .then((got) => (answer = got))
      .catch(() => undefined)
    const isHeld = async (): Promise<boolean> => {
      const held = await arena.rows(
        `SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND usename = 'belfry'
           AND (query LIKE '%INSERT INTO belfry.workflow_event%' OR query = 'COMMIT')`,
      )
      if (answer !== undefined) throw new Error(`${what}: answered ${JSON.stringify(answer)}`)
      return held.length > 0
    }
    await eventually(isHeld, what, 30_000)
    victim.signal('SIGKILL')
    expect(await victim.ended).toBe('SIGKILL')
    expect(await sent).toBe(undefined)
  } finally {
    await holder.query('COMMIT')
    await holder.end()
  }
  if (step.arrange !== undefined) await arena.rows('DROP FUNCTION public.turnstile CASCADE')
  const again = await send(keeper(arena))
  // done by the one that was killed, or by this one
  expect([200, 202, 409], `${what}: ${JSON.stringify(again.body)}`).toContain(again.status)
  await eventually(
    async () => {
      const { body } = await arena.call(keeper(arena), 'GET', path)
      return body['state'] === act.after.state && (await stands(arena, id, act.after.tasks))
    },
    `${what}: the workflow run after it`,
    30_000,
  )
  const tasks = await tasksOf(arena, id)
  const counted = tasks.filter((task) => task.id in act.runs).map((task) => [task.id, task.runs] as const)
  expect(Object.fromEntries(counted), what).toEqual(act.runs)
  if (act.after.state === 'running') await arena.call(keeper(arena), 'POST', `${path}/cancel`, {})
}

it('an act by hand whose process is killed is done once, or not at all and then again', {
  timeout: 600_000,
}, async () => {
  const arena = await harness.open()
  await arena.start('keeper', { BELFRY_ROLES: 'api,worker,scheduler,resolver' })
  const at = (path: string) => ({ kind: 'http', url: `${arena.ledger.url}${path}` })
  const store = (body: object) => arena.call(keeper(arena), 'POST', '/v1/workflows', body)
  const works = { handler: at('/work') }
  const stored = [
    await store({
      name: 'breaks',
      tasks: [
        { id: 'a', ...works },
        { id: 'b', handler: at('/busy'), retry: { maxAttempts: 1 }, needs: ['a'] },
        { id: 'c', ...works, needs: ['b'] },
      ],
    }),
    await store({
      name: 'waits',
      tasks: [
        { id: 'ask', approval: { message: 'ok?' } },
        { id: 'hear', wait: { signal: 'go' } },
        { id: 'd', ...works, needs: ['ask'] },
        { id: 'e', ...works, needs: ['hear'] },
      ],
      finally: [{ id: 'tidy', ...works }],
    }),
  ]
  expect(stored.map(({ status }) => status)).toEqual([200, 200])
  for (const act of acts) for (const step of steps) await killIn(arena, act, step)
  // a second act on each was no second act on record
  const rows = await arena.rows<{ acts: number }>(
    `SELECT jsonb_array_length(acts) AS acts FROM belfry.workflow_run w
     WHERE (SELECT name FROM belfry.workflow WHERE id = w.workflow_id) = 'breaks'`,
  )
  expect(rows.map((row) => row.acts)).toEqual([1, 1, 1, 1])
})
