// Acts by hand on workflow runs on the command line, with a server that only speaks the contract: what is
// sent, what is shown, and what is refused before anything is sent.
import { afterAll, beforeEach, describe, expect, it } from 'vitest'
import { startCliRig } from './support/cli.ts'

const rig = await startCliRig()
afterAll(() => rig.close())
beforeEach(() => {
  rig.server.seen.length = 0
})

const id = '019ad0c1-7f3e-7c63-9a52-6e4d8c1b2a3f'
const lastBody = () => rig.server.seen.at(-1)?.body

describe('workflow-run rerun', () => {
  it('sends what failed if nothing is said, or what is', async () => {
    const made = await rig.run(['workflow-run', 'rerun', id])
    expect(made.code).toBe(0)
    expect(made.out).toMatch(/TASK +BEFORE +AFTER +WHAT\na +failed +started +starts now\n$/)
    expect(made.err).toBe(
      `1 more task is kept as it is (--show-all).\nPut 1 task back.\nNext: belfry workflow-run tasks ${id}\n`,
    )
    expect(lastBody()).toEqual({ what: 'failed' })
    const said = ['--from', 'a, b', '--skip', 'c', '--input', '{"x":1}', '--newest', '--reason', 'fixed']
    await rig.run(['workflow-run', 'rerun', id, ...said])
    expect(lastBody()).toEqual({
      what: 'from',
      tasks: ['a', 'b'],
      skip: ['c'],
      input: { x: 1 },
      version: 'newest',
      reason: 'fixed',
    })
    await rig.run(['workflow-run', 'rerun', id, '--only', 'a'])
    expect(lastBody()).toEqual({ what: 'only', tasks: ['a'] })
    await rig.run(['workflow-run', 'rerun', id, '--all'])
    expect(lastBody()).toEqual({ what: 'all' })
  })

  it('shows all tasks if asked to, and programs all that was answered', async () => {
    const { out, err } = await rig.run(['workflow-run', 'rerun', id, '--show-all', '--dry-run'])
    expect(out).toMatch(/b +succeeded +succeeded +is kept/)
    expect(err).toBe('Dry run, nothing was stored: would put 1 task back.\n')
    expect(await rig.json(['workflow-run', 'rerun', id])).toMatchObject({
      done: true,
      tasks: [{ id: 'a' }, { id: 'b' }],
    })
  })

  it('refuses two choices, and what is no id', async () => {
    const both = await rig.run(['workflow-run', 'rerun', id, '--all', '--from', 'a'])
    expect([both.code, both.err]).toEqual([2, expect.stringContaining('give only one of --from, --all')])
    const odd = await rig.run(['workflow-run', 'rerun', 'nightly'])
    expect([odd.code, odd.err]).toEqual([2, expect.stringContaining('"nightly" is no id of a workflow run')])
    expect(rig.server.seen).toEqual([])
  })
})

describe('workflow-run mark and skip', () => {
  it('send the tasks with state, reason and output', async () => {
    const said = ['--as', 'succeeded', '--reason', 'by hand', '--output-value', '{"n":1}']
    await rig.run(['workflow-run', 'mark', id, 'a', ...said])
    expect(lastBody()).toEqual({ tasks: ['a'], state: 'succeeded', reason: 'by hand', output: { n: 1 } })
    await rig.run(['workflow-run', 'skip', id, 'a', 'b'])
    expect(lastBody()).toEqual({ tasks: ['a', 'b'] })
  })

  it('ask for the state and the reason', async () => {
    const [state, reason] = [
      await rig.run(['workflow-run', 'mark', id, 'a', '--reason', 'r']),
      await rig.run(['workflow-run', 'mark', id, 'a', '--as', 'failed']),
    ]
    expect([state.code, state.err]).toEqual([2, expect.stringContaining('--as succeeded|failed|skipped')])
    expect([reason.code, reason.err]).toEqual([2, expect.stringContaining('--reason')])
  })
})
