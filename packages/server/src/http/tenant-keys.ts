/**
 * The keys of tenants, made and wrapped anew. What asks a key service is done before the transaction begins:
 * it may take seconds, and nobody's rows or connections wait for that.
 */
import { BelfryError } from '@belfry/contract'
import type { TenantKeyRecord } from '../ports/secret-catalog.ts'
import type { Vault, WrappedKey } from '../ports/secrets.ts'
import type { Before, Endpoints } from './endpoint.ts'

/** Calls of a key service at the same time. */
const atOnce = 8

/** The key of the tenant, or a new one that is to be stored, open in this process. */
export async function keyToSealWith(
  tenantId: string,
  { tools: { vault }, lookWithin }: Before,
): Promise<WrappedKey> {
  const key = (await lookWithin((tx) => tx.tenantKey.find())) ?? (await vault.newKey(tenantId))
  await vault.warm(tenantId, key)
  return key
}

/** One step; a key that cannot be opened is told and passed by. */
export const rewrapEndpoint: Pick<Endpoints, 'secretRewrap'> = {
  secretRewrap: {
    as: 'chosen',
    async choose({ body: { after, limit } }, { tools: { vault }, lookWithinPlatform }) {
      const current = vault.currentId
      if (current === undefined) throw noMasterKey()
      const page = await lookWithinPlatform((tx) => tx.tenantKeys.listNotWrappedBy(current, after, limit))
      const { wrapped, failed } = await rewrapAll(vault, page)
      const next = page.length < limit ? null : (page.at(-1)?.tenantId ?? null)
      return {
        as: 'platform',
        async answer({ tx }) {
          let rewrapped = 0
          for (const { before, key } of wrapped) if (await tx.tenantKeys.replace(before, key)) rewrapped += 1
          const counts = await tx.tenantKeys.countByWrapper()
          const wrappedBy = counts.map(({ wrapperId, tenants }) => ({ key: wrapperId, tenants }))
          const left = wrappedBy.reduce((sum, { key, tenants }) => sum + (key === current ? 0 : tenants), 0)
          return { body: { current, rewrapped, failed, next, left, wrappedBy } }
        },
      }
    },
  },
}

async function rewrapAll(vault: Vault, page: readonly TenantKeyRecord[]) {
  const wrapped: { readonly before: TenantKeyRecord; readonly key: WrappedKey }[] = []
  const failed: { readonly tenant: string; readonly why: string }[] = []
  for (let start = 0; start < page.length; start += atOnce) {
    const few = page.slice(start, start + atOnce)
    const outcomes = await Promise.allSettled(few.map(({ tenantId, key }) => vault.rewrap(tenantId, key)))
    for (const [index, before] of few.entries()) {
      const outcome = outcomes[index]
      if (outcome?.status === 'fulfilled') wrapped.push({ before, key: outcome.value })
      else failed.push({ tenant: before.tenantId, why: wordsOf(outcome?.reason) })
    }
  }
  return { wrapped, failed }
}

const wordsOf = (error: unknown): string =>
  error instanceof BelfryError ? error.message : 'It could not be opened, or not be wrapped anew.'

function noMasterKey(): BelfryError {
  const message =
    'This server has no master key to wrap by; set BELFRY_SECRET_KEYS or BELFRY_SECRET_KMS_KEYS.'
  return new BelfryError('secrets_unavailable', message)
}
