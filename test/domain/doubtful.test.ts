// What is remembered by version is read again when a failover may have undone it, and nothing that was read
// in the middle of that is kept.
import { jobDefinitionSchema } from '@belfry/contract'
import { expect, it } from 'vitest'
import { createDefinitionCache } from '../../packages/server/src/engine/definition-cache.ts'
import { createDoubtful } from '../../packages/server/src/engine/doubtful.ts'

const version = { tenantId: 't', jobId: 'j', version: 2 }
const definitionOf = (url: string) => jobDefinitionSchema.parse({ handler: { kind: 'http', url } })

function openStore() {
  const store = { url: 'https://a.test/lost', doubted: 0, reads: 0, meanwhile: (): void => undefined }
  const definitions = createDefinitionCache({
    doubts: () => store.doubted,
    async definitions(versions) {
      store.reads += 1
      const found = versions.map((each) => ({ ...each, definition: definitionOf(store.url) }))
      store.meanwhile()
      return found
    },
  })
  const urlNow = async () => {
    const handler = (await definitions.load([version]))(version)?.handler
    return handler?.kind === 'http' ? handler.url : undefined
  }
  return { store, urlNow }
}

it('a definition is read once, and again after a doubt', async () => {
  const { store, urlNow } = openStore()
  expect([await urlNow(), await urlNow(), store.reads]).toEqual([
    'https://a.test/lost',
    'https://a.test/lost',
    1,
  ])
  store.url = 'https://a.test/kept'
  store.doubted = 1
  expect([await urlNow(), await urlNow(), store.reads]).toEqual([
    'https://a.test/kept',
    'https://a.test/kept',
    2,
  ])
})

it('what was on its way when the doubt came up is not kept', async () => {
  const { store, urlNow } = openStore()
  store.meanwhile = () => void (store.doubted += 1)
  expect(await urlNow()).toBe('https://a.test/lost')
  store.meanwhile = () => undefined
  store.url = 'https://a.test/kept'
  expect(await urlNow()).toBe('https://a.test/kept')
})

it('a store that cannot lose anything is never in doubt', () => {
  let forgotten = 0
  const isSure = createDoubtful(undefined, () => void (forgotten += 1))
  expect([isSure()(), isSure()(), forgotten]).toEqual([true, true, 0])
})
