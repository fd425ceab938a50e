/**
 * Endpoints of who calls, tenants and keys. Who may make which key is decided in
 * engine/catalog/key-grants.ts; a secret leaves in one answer and is stored nowhere.
 */
import { BelfryError, rolePermissions, scopePermissions } from '@belfry/contract'
import { accountNamed, checkMayActAs } from '../../engine/catalog/act-as.ts'
import { checkGrant, checkMayRevoke, checkNobodyRuns } from '../../engine/catalog/key-grants.ts'
import type { CatalogTx, CommonTx } from '../../ports/catalog.ts'
import type { Credential } from '../../ports/credentials.ts'
import type { KeyRecord, NewKey } from '../../ports/tenants.ts'
import type { Call, Endpoints } from '../endpoint.ts'
import { noSuch } from '../missing.ts'
import { pageById } from '../page.ts'
import { invalidRequest } from '../validation.ts'
import { keyView, tenantView } from '../views.ts'

type AccessEndpoints = Pick<
  Endpoints,
  'whoami' | 'tenantCreate' | 'tenantList' | 'keyCreate' | 'keyList' | 'keyRevoke'
>

export const accessEndpoints: AccessEndpoints = {
  whoami: {
    as: 'tenant',
    async answer({ credential }) {
      const { keyId, tenantId, tenantName, tenantCreatedAtMs, principal, role, scopes } = credential
      const tenant = tenantView({ id: tenantId, name: tenantName, createdAtMs: tenantCreatedAtMs })
      const permissions = [...credential.permissions]
      return { body: { tenant, keyId, principal: { ...principal }, role, scopes: [...scopes], permissions } }
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
        return {
          as: 'tenant',
          async answer(call) {
            const owner = await ownerOfKey(call)
            return makeKey(call, owner, (key) => call.tx.keys.insert(key))
          },
        }
      }
      return {
        as: 'platform',
        async answer(call) {
          const name = body.tenant ?? call.credential.tenantName
          const tenant = await call.tx.tenants.findByName(name)
          if (tenant === undefined) throw noSuchTenant(name)
          if (otherTenant) checkNobodyRuns(name, await call.tx.tenants.handsOf(tenant.id), 'other')
          const owner = otherTenant ? null : ownPrincipal(call.credential)
          const made = await makeKey(call, owner, (key) => call.tx.tenants.insertKey(tenant.id, key))
          return otherTenant ? { ...made, audited: { alsoIn: tenant.id } } : made
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
    async answer({ tx, params, credential, after }) {
      const found = await tx.keys.find(params.id)
      if (found !== undefined) checkMayRevoke(credential, found)
      const key = found && (await tx.keys.revoke(found.id))
      if (key === undefined) throw noSuch('key', params.id)
      after({ kind: 'key_revoked', keyId: key.id })
      return { body: keyView(key) }
    },
  },
}

/**
 * A key that belongs to nobody gives none that belong to somebody; a person's and an account's belong to
 * them.
 */
const ownPrincipal = ({ principal }: Credential): NewKey['owner'] =>
  principal.kind === 'key' ? null : principal

async function ownerOfKey({ tx, body, credential }: Call<'keyCreate', CatalogTx>): Promise<NewKey['owner']> {
  const { serviceAccount, scopes } = body
  if (serviceAccount === undefined) return ownPrincipal(credential)
  checkMayActAs(credential, [serviceAccount], '/serviceAccount')
  const account = await accountNamed(tx, serviceAccount, '/serviceAccount')
  const allowed = new Set(rolePermissions[account.role])
  const errors = scopes.flatMap((scope, index) => {
    if (scopePermissions[scope].some((each) => allowed.has(each))) return []
    const message = `allows nothing that the role of "${account.name}" (${account.role}) allows; leave it out`
    return [{ pointer: `/scopes/${index}`, message }]
  })
  if (errors.length > 0) throw invalidRequest(errors)
  return { kind: 'service_account', id: account.id }
}

/**
 * The secret is in the answer and nowhere else; an Idempotency-Key keeps the answer without it. A dry run
 * shows none: it would never work.
 */
async function makeKey(
  { tx, tools, body, query }: Call<'keyCreate', CommonTx>,
  owner: NewKey['owner'],
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
  const record = await insert({ id, name, owner, prefix, secretHash, scopes, queues, expiresAtMs })
  const view = keyView(record)
  return { body: { ...view, secret: query.dryRun ? null : key }, keptBody: { ...view, secret: null } }
}

function noSuchTenant(name: string): BelfryError {
  const message = `There is no tenant named "${name}". Create it first (POST /v1/tenants).`
  return new BelfryError('not_found', message, { errors: [{ pointer: '/tenant', message }] })
}
