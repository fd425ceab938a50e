/**
 * What the tasks of the workflows in this folder do: small functions, each a job that a workflow names. They
 * take what the workflow hands them and give back JSON, which is what the tasks below them can take.
 */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { defineJob, fail, skip } from 'belfry'
import { z } from 'zod'

const noRetry = { maxAttempts: 1 }
const anything = z.unknown()

// ci.yaml
const ci = [
  defineJob({ name: 'lint', retry: noRetry, run: () => fail('2 problems') }),
  defineJob({
    name: 'unit-tests',
    input: z.object({ node: z.number(), os: z.string() }),
    run: ({ node, os }) => ({ passed: `${os}/${node}` }),
  }),
  defineJob({ name: 'build', run: () => ({ image: 'shop:1.4.0' }) }),
  defineJob({
    name: 'deploy',
    input: z.object({ image: z.string() }),
    run: ({ image }) => ({ deployed: image }),
  }),
]

// branch.yaml, condition.yaml
const choices = [
  defineJob({
    name: 'choose-size',
    input: z.object({ rows: z.number() }),
    run: ({ rows }) => (rows > 1_000 ? ['large'] : ['small']),
  }),
  defineJob({ name: 'load', input: anything, run: (input) => ({ loaded: input ?? null }) }),
  defineJob({ name: 'count', input: z.object({ rows: z.number() }), run: ({ rows }) => ({ rows }) }),
  defineJob({ name: 'alert', input: anything, run: (input) => ({ told: input ?? null }) }),
]

// fan-out.yaml
const images = [
  defineJob({ name: 'list-images', run: () => [{ name: 'a.png' }, { name: 'b.png' }, { name: 'no.txt' }] }),
  defineJob({
    name: 'shrink',
    retry: noRetry,
    input: z.object({ name: z.string() }),
    run: ({ name }) => (name.endsWith('.png') ? `small-${name}` : skip('no image')),
  }),
  defineJob({
    name: 'album',
    input: z.object({ images: z.array(z.string().nullable()) }),
    run: ({ images }) => images.filter((image) => image !== null),
  }),
]

// clean-up.yaml, setup.yaml
const cleanUp = [
  defineJob({ name: 'break', retry: noRetry, run: () => fail('it broke') }),
  defineJob({ name: 'tidy', input: anything, run: () => 'tidy' }),
  defineJob({ name: 'make-database', run: () => ({ name: 'test-17' }) }),
  defineJob({
    name: 'drop-database',
    input: z.object({ name: z.string() }),
    run: ({ name }) => `${name} is gone`,
  }),
]

// fail-fast.yaml: it works until it is told to stop
const shards = [
  defineJob({
    name: 'shard',
    retry: noRetry,
    input: z.object({ number: z.number() }),
    async run({ number }, { signal }) {
      if (number === 2) fail('shard 2 is broken')
      await setTimeout(60_000, undefined, { signal })
    },
  }),
]

// approval.yaml, payment.yaml
const waits = [
  defineJob({ name: 'plan', run: () => ({ changes: 3 }) }),
  defineJob({
    name: 'apply',
    input: z.object({ changes: z.number() }),
    run: ({ changes }) => ({ changes }),
  }),
  defineJob({
    name: 'ship',
    input: z.object({ amount: z.number() }),
    run: ({ amount }) => ({ shipped: amount }),
  }),
  defineJob({ name: 'remind', input: anything, run: () => 'reminded' }),
]

/** Those of diamond.yaml read files in this folder. */
function diamond(folder: string) {
  const readLines = async (file: string): Promise<string[]> =>
    (await readFile(join(folder, file), 'utf8')).split('\n').filter((line) => line !== '')

  return [
    defineJob({ name: 'begin', retry: noRetry, run: () => ({ day: '2026-11-30' }) }),
    defineJob({
      name: 'sales',
      retry: noRetry,
      input: z.object({ file: z.string().default('sales.csv'), day: z.string() }),
      async run({ file, day }, { log }) {
        const rows = (await readLines(file)).filter((line) => line.startsWith(day))
        log.info('read', { file, rows: rows.length })
        return { total: rows.reduce((sum, line) => sum + Number(line.split(',')[1]), 0) }
      },
    }),
    defineJob({
      name: 'rate',
      retry: noRetry,
      async run(_, { log }) {
        const [line = ''] = await readLines('rate.txt')
        log.info('read', { rate: line })
        return { rate: Number(line) }
      },
    }),
    defineJob({
      name: 'report',
      retry: noRetry,
      input: z.object({ total: z.number(), rate: z.number() }),
      run: ({ total, rate }) => `sold for ${(total * rate).toFixed(2)}`,
    }),
  ]
}

export const workflowJobs = (folder: string) => [
  ...diamond(folder),
  ...ci,
  ...choices,
  ...images,
  ...cleanUp,
  ...shards,
  ...waits,
]
