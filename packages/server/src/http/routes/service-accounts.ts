/**
 * Endpoints of service accounts. Whoever makes or changes one may do all that its role
 * may, before and after (engine/catalog/role-grants.ts).
 */
import type { ServiceAccount } from '@belfry/contract'
import { checkRoles } from '../../engine/catalog/role-grants.ts'
import type { PageRequest } from '../../ports/paging.ts'
import type { ServiceAccountRecord } from '../../ports/service-accounts.ts'
import type { Endpoints } from '../endpoint.ts'
import { checkIfMatch } from '../etag.ts'
import { noSuch } from '../missing.ts'
import { pageById } from '../page.ts'

type ServiceAccountEndpoints = Pick<
  Endpoints,
  'serviceAccountCreate' | 'serviceAccountList' | 'serviceAccountGet' | 'serviceAccountUpdate'
>

export const serviceAccountEndpoints: ServiceAccountEndpoints = {
  serviceAccountCreate: {
    as: 'tenant',
    async answer({ tx, tools, body, credential }) {
      checkRoles(credential, [body.role])
      const id = tools.ids.uuidv7(await tx.nowMs())
      return answerOf(await tx.serviceAccounts.insert({ id, ...body }))
    },
  },
  serviceAccountList: {
    as: 'tenant',
    async answer({ tx, query, credential }) {
      const filter = { name: query.name }
      const scope = { list: 'service-accounts', tenantId: credential.tenantId, filter }
      const read = (page: PageRequest) => tx.serviceAccounts.list(page, filter)
      return { body: await pageById(scope, query, read, serviceAccountView) }
    },
  },
  serviceAccountGet: {
    as: 'tenant',
    async answer({ tx, params }) {
      const account = await tx.serviceAccounts.find(params.id)
      if (account === undefined) throw noSuch('service account', params.id)
      return answerOf(account)
    },
  },
  serviceAccountUpdate: {
    as: 'tenant',
    async answer({ tx, params, body, ifMatch, credential, after }) {
      const before = await tx.serviceAccounts.lock(params.id)
      if (before === undefined) throw noSuch('service account', params.id)
      checkIfMatch(ifMatch, before.version)
      const role = body.role ?? before.role
      checkRoles(credential, [before.role, role])
      const account = await tx.serviceAccounts.update(before.id, {
        description: body.description ?? before.description,
        role,
        queues: body.queues === undefined ? before.queues : body.queues,
        disabled: body.disabled ?? before.disabledAtMs !== null,
      })
      after({ kind: 'principal_changed', principalId: account.id })
      return answerOf(account)
    },
  },
}

function answerOf(account: ServiceAccountRecord) {
  const { version } = account
  return { body: serviceAccountView(account), version, location: `/v1/service-accounts/${account.id}` }
}

function serviceAccountView(account: ServiceAccountRecord): ServiceAccount {
  const { id, name, description, role, queues, version, createdAtMs, updatedAtMs, disabledAtMs } = account
  return {
    id,
    name,
    description,
    role,
    queues: queues === null ? null : [...queues],
    version,
    createdAt: new Date(createdAtMs).toISOString(),
    updatedAt: new Date(updatedAtMs).toISOString(),
    disabledAt: disabledAtMs === null ? null : new Date(disabledAtMs).toISOString(),
  }
}
