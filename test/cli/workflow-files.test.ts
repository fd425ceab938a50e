// `belfry workflow validate` and `graph`: files of workflows that are sound, and every kind of fault with its
// place and the fix.
import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { runAlone } from './support/cli.ts'

const validate = (file: object | string) =>
  runAlone(['workflow', 'validate', '-f', '-', '-o', 'json'], {
    stdin: typeof file === 'string' ? file : JSON.stringify(file),
  })

const task = (id: string, more: object = {}) => ({ id, job: id, ...more })
const workflow = (tasks: readonly object[], more: object = {}) => ({ name: 'nightly', tasks, ...more })

const diamond = workflow([
  task('extract'),
  task('left', { needs: ['extract'] }),
  task('right', { needs: ['extract'], when: { task: 'extract', output: '/rows', is: { atLeast: 1 } } }),
  task('join', { needs: ['left', 'right'] }),
])

describe('belfry workflow validate', () => {
  it('says that a file is sound, and what is likely not meant', async () => {
    const cleanup = task('clean', { needs: ['join'], rule: 'all_done' })
    const { code, out } = await validate({ ...diamond, tasks: [...diamond.tasks, cleanup] })
    expect(code).toBe(0)
    expect(JSON.parse(out)).toMatchObject({
      name: 'nightly',
      valid: true,
      tasks: 5,
      warnings: [{ code: 'looks_like_cleanup', pointer: '/tasks/4/rule' }],
    })
  })

  it('takes YAML', async () => {
    const text = 'name: nightly\ntasks:\n  - id: a\n    handler: { kind: function, name: a }\n'
    expect((await validate(text)).code).toBe(0)
  })

  it('takes the example of the reference page', async () => {
    const page = readFileSync(new URL('../../docs/reference/workflows.md', import.meta.url), 'utf8')
    const example = /```yaml\n(.*?)```/s.exec(page)?.[1] ?? ''
    const { code, out } = await validate(example)
    expect(code, out).toBe(0)
    expect(JSON.parse(out)).toMatchObject({ tasks: 4, warnings: [] })
  })

  it.each<[string, object | string, string, RegExp]>([
    ['no tasks', workflow([]), '/tasks', /at least one/],
    ['an unknown task', workflow([task('a', { needs: ['ghost'] })]), '/tasks/0/needs/0', /no task "ghost"/],
    ['itself', workflow([task('a', { needs: ['a'] })]), '/tasks/0/needs/0', /needs itself/],
    [
      'a circle',
      workflow([task('a', { needs: ['b'] }), task('b', { needs: ['a'] })]),
      '/tasks/0/needs',
      /a → b → a/,
    ],
    ['an id twice', workflow([task('a'), task('a')]), '/tasks/1/id', /already the id of task 1/],
    [
      'a rule that never holds',
      workflow([task('a', { rule: 'one_failed' })]),
      '/tasks/0/rule',
      /never holds/,
    ],
    ['a rule that is none', workflow([task('a', { rule: 'most' })]), '/tasks/0/rule', /all_succeeded/],
    ['nothing to do', workflow([{ id: 'a' }]), '/tasks/0', /does nothing/],
    [
      'two things to do',
      workflow([task('a', { approval: { message: 'Go?' } })]),
      '/tasks/0/approval',
      /does one thing/,
    ],
    [
      'a condition on a stranger',
      workflow([task('a'), task('b', { when: { task: 'a', in: ['succeeded'] } })]),
      '/tasks/1/when',
      /add it to needs/,
    ],
    [
      'a condition that its rule rules out',
      workflow([
        task('a'),
        task('b', { needs: ['a'], when: { task: 'a', in: ['failed'] }, rule: 'all_skipped' }),
      ]),
      '/tasks/1/when',
      /can never hold/,
    ],
    [
      'a condition of no form',
      workflow([task('a'), task('b', { needs: ['a'], when: { task: 'a', on: [] } })]),
      '/tasks/1/when',
      /is no condition/,
    ],
    [
      'an output of a stranger',
      workflow([task('a'), task('b', { inputFrom: [{ to: '/x', task: 'a' }] })]),
      '/tasks/1/inputFrom/0/task',
      /add it to needs/,
    ],
    [
      'an item without items',
      workflow([task('a', { inputFrom: [{ to: '/x', item: '' }] })]),
      '/tasks/0/inputFrom/0/item',
      /has no items/,
    ],
    [
      'a matrix that is too large',
      workflow([task('a', { matrix: { x: Array.from({ length: 257 }, (_, at) => at) } })]),
      '/tasks/0/matrix/x',
      /256/,
    ],
    [
      'a task of another part',
      workflow([task('a')], { finally: [task('b', { needs: ['a'] })] }),
      '/finally/0/needs/0',
      /another part/,
    ],
    [
      'a field that is none',
      workflow([task('a', { need: ['b'] })]),
      '/tasks/0/need',
      /not a known field; did you mean "needs"/,
    ],
    [
      'a rule of Airflow',
      workflow([task('a', { rule: 'all_success' })]),
      '/tasks/0/rule',
      /mean "all_succeeded"/,
    ],
    [
      'a wait of no form',
      workflow([{ id: 'a', wait: { hours: 1 } }]),
      '/tasks/0/wait',
      /like \{forMs: 60000/,
    ],
    [
      'an end of a wait of no form',
      workflow([{ id: 'a', wait: { until: 'noon' } }]),
      '/tasks/0/wait',
      /\{at: "2027/,
    ],
    [
      'a list of no form',
      workflow([task('a', { forEach: { from: ['x'] } })]),
      '/tasks/0/forEach/from',
      /like \{task: list, path/,
    ],
    [
      'a mapping of no form',
      workflow([task('a', { inputFrom: [{ x: 1 }] })]),
      '/tasks/0/inputFrom/0',
      /like \{to:/,
    ],
    [
      'a trigger of no form',
      workflow([task('a')], { triggers: [{ cron: '' }] }),
      '/triggers/0',
      /\{event: order-paid/,
    ],
    ['no name', { tasks: [task('a')] }, '/name', /is required/],
    [
      'a need twice',
      workflow([task('a'), task('b', { needs: ['a', 'a'] })]),
      '/tasks/1/needs/1',
      /second time/,
    ],
  ])('refuses %s', async (_, file, pointer, words) => {
    const { code, out } = await validate(file)
    expect(code).not.toBe(0)
    const { errors } = JSON.parse(out) as { errors: { pointer: string; message: string }[] }
    expect(errors.map((each) => each.pointer)).toContain(pointer)
    expect(errors.map((each) => each.message).join('\n')).toMatch(words)
  })

  it.each<[string, string, RegExp]>([
    ['an empty file', '', /is empty/],
    ['a file of comments', '# later\n', /is empty/],
    ['two documents', 'name: a\n---\nname: b\n', /2 YAML documents.*keep one/],
    ['an empty document before another', '---\n---\nname: b\n', /2 YAML documents/],
    ['a tag', `name: a\ntasks:\n  - id: a\n    job: !!js/function 'x'\n`, /js\/function.*plain values/],
    [
      'a file of GitHub Actions',
      'on: push\njobs:\n  build:\n    runs-on: x\n',
      /GitHub Actions.*write tasks/,
    ],
    ['an alias of nothing', 'name: *a\n', /not valid YAML/],
  ])('says of %s what it is', async (_, text, words) => {
    const { code, out, err } = await validate(text)
    expect(code).toBe(2)
    expect(out + err).toMatch(words)
  })

  it('refuses what is no YAML, and a call without a file', async () => {
    expect((await validate('a: [')).code).toBe(2)
    expect((await runAlone(['workflow', 'validate'])).code).toBe(2)
  })
})

describe('belfry workflow graph', () => {
  const graph = async (...more: readonly string[]): Promise<string> => {
    const result = await runAlone(['workflow', 'graph', '-f', '-', ...more], {
      stdin: JSON.stringify(diamond),
    })
    expect(result).toMatchObject({ code: 0, err: '' })
    return result.out
  }

  it('draws layers in the terminal', async () => {
    expect(await graph()).toBe(
      [
        '1 ─ extract',
        '2 ┬ left  ← extract',
        '  └ right (when)  ← extract',
        '3 ─ join  ← left, right',
        '',
      ].join('\n'),
    )
  })

  it('gives programs nodes and edges', async () => {
    const { nodes, edges } = JSON.parse(await graph('-o', 'json')) as { nodes: object[]; edges: object[] }
    expect(nodes).toHaveLength(4)
    expect(nodes[3]).toEqual({
      id: 'join',
      kind: 'task',
      role: 'main',
      rule: 'none_failed_min_one_success',
      forEach: false,
      allowFailure: false,
    })
    expect(edges).toContainEqual({ from: 'left', to: 'join' })
    expect(edges).toHaveLength(4)
    expect(await graph('-o', 'name')).toBe('extract\nleft\nright\njoin\n')
  })

  it.each([
    ['mermaid', /^flowchart TD\n {2}t0\["extract"\]/, 4],
    ['dot', /^digraph workflow \{/, 4],
    ['svg', /^<svg xmlns=/, 4],
  ] as const)('writes %s with every edge', async (format, head, edges) => {
    const text = await graph('--as', format)
    expect(text).toMatch(head)
    expect(text.match(/-->|->|<path/g)).toHaveLength(edges)
  })
})
