// The page on scaling and the files for KEDA: the commands are taken, the URL that KEDA asks is answered, and
// the figure stands where it is looked for.
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { parseAllDocuments } from 'yaml'
import { parseArguments } from '../../packages/cli/src/arguments.ts'
import { commandTable } from '../../packages/cli/src/command-table.ts'
import { configKeys, environmentName } from '../../packages/server/src/config/schema.ts'
import { startTestApi, type TestApi } from '../support/api.ts'
import { runAlone } from '../cli/support/cli.ts'

const read = (path: string): string =>
  readFileSync(fileURLToPath(new URL(`../../${path}`, import.meta.url)), 'utf8')
type Loose = { readonly [key: string]: Loose } & readonly Loose[]
const documents = (path: string) => parseAllDocuments(read(path)).map((each) => each.toJS() as Loose)
const page = read('docs/how-to/scale-workers.md')
const commands = [...page.matchAll(/^belfry .*$/gm)].map(([line]) => line)

let t: TestApi
beforeAll(async () => {
  t = await startTestApi()
})
afterAll(() => t.close())

describe('docs/how-to/scale-workers.md', () => {
  it.each(commands)('%s', (line) => {
    const parsed = parseArguments(commandTable, line.split(' ').slice(1), '0', 80)
    expect(parsed.kind).toBe('run')
  })

  it('shows a queue as it is shown', async () => {
    const env = { BELFRY_URL: await t.api.listen({ host: '127.0.0.1', port: 0 }), BELFRY_API_KEY: t.adminKey }
    const { out } = await runAlone(['queue', 'stats', 'default', '--slots', '20'], { env })
    const labels = (text: string) =>
      [...text.matchAll(/^([A-Z]\w+(?: \w+)?)(?= {2})/gm)].map(([, label]) => label)
    const [, shown = ''] = /^```\n(Queue[\s\S]*?)^```$/m.exec(page) ?? []
    expect(labels(shown)).toEqual(['Queue', 'Runs of', 'Servers'])
    expect(labels(out).slice(0, 3)).toEqual(labels(shown))
  })
})

describe('deploy/keda', () => {
  it('asks a URL that is answered, with a figure in the place that it reads', async () => {
    const scaled = documents('deploy/keda/scaledobject.yaml').find(
      ({ kind }) => String(kind) === 'ScaledObject',
    )
    const [trigger] = scaled?.['spec']?.['triggers'] ?? []
    const { url, valueLocation, targetValue } = (trigger?.['metadata'] ?? {}) as Record<string, string>
    const { pathname, search } = new URL(String(url))
    const key = await t.keyFor('acme', ['platform'])
    const answer = await t.call('GET', `${pathname}${search}`, { key })
    expect(answer.status).toBe(200)
    const figure = String(valueLocation)
      .split('.')
      .reduce<unknown>((value, name) => (value as Record<string, unknown>)[name], answer.body)
    expect(figure).toBe(0)
    expect(targetValue).toBe('1')
  })

  it('scales the Deployment that is there, with settings that there are', () => {
    const [worker] = documents('deploy/keda/worker.yaml')
    const scaled = documents('deploy/keda/scaledobject.yaml').find(
      ({ kind }) => String(kind) === 'ScaledObject',
    )
    expect(scaled?.['spec']?.['scaleTargetRef']?.['name']).toBe(worker?.['metadata']?.['name'])
    const pod = worker?.['spec']?.['template']?.['spec']
    const [container] = pod?.['containers'] ?? []
    const args = parseArguments(commandTable, (container?.['args'] ?? []).map(String), '0', 80)
    expect(args.kind).toBe('run')
    const known = configKeys.flatMap((name) => [environmentName(name), `${environmentName(name)}_FILE`])
    const env = (container?.['env'] ?? []).map(({ name, value }) => [String(name), String(value)] as const)
    for (const [name] of env) expect(known).toContain(name)
    const drainMs = Number(new Map(env).get('BELFRY_DRAIN_MS'))
    expect(Number(pod?.['terminationGracePeriodSeconds']) * 1_000).toBeGreaterThan(drainMs + 25_000)
    // longer than any attempt may take
    expect(drainMs).toBeGreaterThan(24 * 3_600_000)
  })
})
