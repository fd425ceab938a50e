/**
 * Endpoints of who calls, tenants and keys. Who may make which key is decided in
 * engine/catalog/key-grants.ts; a secret leaves in one answer and is stored nowhere.
 */
import { BelfryError } from '@belfry/contract'
import { checkGrant } from '../../engine/catalog/key-grants.ts'
import type { CommonTx, KeyRecord, NewKey } from '../../ports/catalog.ts'
import type { Call, Endpoints } from '../endpoint.ts'
import { noSuch } from '../missing.ts'
import { pageById } from '../page.ts'
import { keyView, tenantView } from '../views.ts'

type AccessEndpoints = Pick<
  Endpoints,
  'whoami' | 'tenantCreate' | 'tenantList' | 'keyCreate' | 'keyList' | 'keyRevoke'
>

export const accessEndpoints: AccessEndpoints = {
  whoami: {
    as: 'tenant',
    async answer({ credential }) {
      const { keyId, tenantId, tenantName, tenantCreatedAtMs, scopes } = credential
      const tenant = tenantView({ id: tenantId, name: tenantName, createdAtMs: tenantCreatedAtMs })
      return { body: { tenant, keyId, scopes: [...scopes] } }
    },
  },
  tenantCreate: {
    as: 'platform',
    async answer({ tx, tools, body }) {
      const id = tools.ids.uuidv7(await tx.nowMs())
      return { body: tenantView(await tx.tenants.insert({ id, name: body.name })) }
    },
  },
  tenantList: {
    as: 'platform',
    async answer({ tx, query, credential }) {
      const scope = { list: 'tenants', tenantId: credential.tenantId, filter: {} }
      return { body: await pageById(scope, query, (page) => tx.tenants.list(page), tenantView) }
    },
  },
  keyCreate: {
    as: 'chosen',
    choose({ credential, body }) {
      const otherTenant = body.tenant !== undefined && body.tenant !== credential.tenantName
      checkGrant(credential, body.scopes, otherTenant)
      // the tenant's own role may not make a key that reaches beyond the tenant
      if (!otherTenant && !body.scopes.includes('platform')) {
        return { as: 'tenant', answer: (call) => makeKey(call, (key) => call.tx.keys.insert(key)) }
      }
      return {
        as: 'platform',
        async answer(call) {
          const name = body.tenant ?? call.credential.tenantName
          const tenant = await call.tx.tenants.findByName(name)
          if (tenant === undefined) throw noSuchTenant(name)
          return makeKey(call, (key) => call.tx.tenants.insertKey(tenant.id, key))
        },
      }
    },
  },
  keyList: {
    as: 'tenant',
    async answer({ tx, query, credential }) {
      const scope = { list: 'keys', tenantId: credential.tenantId, filter: {} }
      return { body: await pageById(scope, query, (page) => tx.keys.list(page), keyView) }
    },
  },
  keyRevoke: {
    as: 'tenant',
    async answer({ tx, params, after }) {
      const key = await tx.keys.revoke(params.id)
      if (key === undefined) throw noSuch('key', params.id)
      after({ kind: 'key_revoked', keyId: key.id })
      return { body: keyView(key) }
    },
  },
}

/**
 * The secret is in the answer and nowhere else; an Idempotency-Key keeps the answer without it. A dry run
 * shows none: it would never work.
 */
async function makeKey(
  { tx, tools, body, query }: Call<'keyCreate', CommonTx>,
  insert: (key: NewKey) => Promise<KeyRecord>,
) {
  const nowMs = await tx.nowMs()
  const expiresAtMs = body.expiresAt === undefined ? null : Date.parse(body.expiresAt)
  if (expiresAtMs !== null && expiresAtMs <= nowMs) {
    const message = `is over: it is now ${new Date(nowMs).toISOString()}; give a later time or leave it out`
    throw new BelfryError('invalid_request', `The end of the key ${message}.`, {
      errors: [{ pointer: '/expiresAt', message }],
    })
  }
  const { key, prefix, secretHash } = tools.mint.mint()
  const { name, scopes, queues = null } = body
  const id = tools.ids.uuidv7(nowMs)
  const record = await insert({ id, name, prefix, secretHash, scopes, queues, expiresAtMs })
  const view = keyView(record)
  return { body: { ...view, secret: query.dryRun ? null : key }, keptBody: { ...view, secret: null } }
}

function noSuchTenant(name: string): BelfryError {
  const message = `There is no tenant named "${name}". Create it first (POST /v1/tenants).`
  return new BelfryError('not_found', message, { errors: [{ pointer: '/tenant', message }] })
}
