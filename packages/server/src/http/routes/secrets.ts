/**
 * Endpoints of secrets. A value comes in, is sealed with the key of its tenant and stored; from there on only
 * the engine can open it. No answer, error or log line holds one.
 */
import type { Secret } from '@belfry/contract'
import {
  BelfryError,
  keptSecretVersions,
  maxGrantsOfSecret,
  secretTargetsOf,
  secretsOf,
} from '@belfry/contract'
import type { CatalogTx } from '../../ports/catalog.ts'
import type { Principal } from '../../ports/credentials.ts'
import type { Grantee, GranteeKind, SecretRecord } from '../../ports/secret-catalog.ts'
import type { WrappedKey } from '../../ports/secrets.ts'
import type { Answer, Call, Endpoints } from '../endpoint.ts'
import { checkIfMatch } from '../etag.ts'
import { noSuch } from '../missing.ts'
import { pageById } from '../page.ts'
import { secretSummaryView, secretView } from '../secret-views.ts'
import { keyToSealWith, rewrapEndpoint } from '../tenant-keys.ts'
import { invalidRequest } from '../validation.ts'

type SecretEndpoints = Pick<
  Endpoints,
  | 'secretCreate'
  | 'secretList'
  | 'secretGet'
  | 'secretUpdate'
  | 'secretRotate'
  | 'secretRestore'
  | 'secretDelete'
  | 'secretGrant'
  | 'secretRevoke'
  | 'secretRewrap'
>

const grantEndpoints: Pick<SecretEndpoints, 'secretGrant' | 'secretRevoke'> = {
  secretGrant: {
    as: 'tenant',
    async answer({ tx, params, body, credential }) {
      const secret = await held(tx, params.id, undefined)
      const grantee = await namedGrantee(tx, body)
      const isNew = !secret.grants.some((grant) => isOf(grant, grantee))
      if (isNew && secret.grants.length >= maxGrantsOfSecret) {
        const message = `is one more than the ${maxGrantsOfSecret} that a secret may have; revoke one first`
        throw invalidRequest([{ pointer: '', message }])
      }
      const targets = body.anyTarget ? null : await targetsOf(tx, grantee, secret.name)
      const grant = { grantee, targets, createdBy: actorOf(credential.principal) }
      return { body: secretView(await tx.secrets.grant(secret.id, grant)) }
    },
  },
  secretRevoke: {
    as: 'tenant',
    async answer({ tx, params, body }) {
      const secret = await held(tx, params.id, undefined)
      const grantee = namedIn(secret, body) ?? (await namedGrantee(tx, body))
      if (!(await tx.secrets.revoke(secret.id, grantee))) {
        const whom = `the ${words[grantee.kind]} "${grantee.name}"`
        const message = `The secret "${secret.name}" is not granted to ${whom}.`
        throw new BelfryError('not_found', message, { errors: [{ pointer: '', message }] })
      }
      const left = await tx.secrets.find(secret.id)
      return { body: secretView(left ?? secret) }
    },
  },
}

export const secretEndpoints: SecretEndpoints = {
  secretCreate: {
    as: 'chosen',
    async choose({ credential: { tenantId } }, before) {
      const made = await keyToSealWith(tenantId, before)
      return { as: 'tenant', answer: (call) => create(call, made) }
    },
  },
  secretList: {
    as: 'tenant',
    async answer({ tx, query, credential }) {
      const filter = { name: query.name }
      const scope = { list: 'secrets', tenantId: credential.tenantId, filter }
      return {
        body: await pageById(scope, query, (page) => tx.secrets.list(page, filter), secretSummaryView),
      }
    },
  },
  secretGet: {
    as: 'tenant',
    async answer({ tx, params }) {
      const secret = await tx.secrets.find(params.id)
      if (secret === undefined) throw noSuch('secret', params.id)
      return answerOf(secret)
    },
  },
  secretUpdate: {
    as: 'tenant',
    async answer({ tx, params, body, ifMatch }) {
      const secret = await held(tx, params.id, ifMatch)
      const { description } = body
      const same = description === undefined || description === secret.description
      return answerOf(same ? secret : await tx.secrets.describe(secret.id, description))
    },
  },
  secretRotate: {
    as: 'chosen',
    async choose({ credential: { tenantId } }, { tools, lookWithin }) {
      const known = await lookWithin((tx) => tx.tenantKey.find())
      // without one there is no secret to rotate, which is said below
      if (known !== undefined) await tools.vault.warm(tenantId, known)
      return { as: 'tenant', answer: rotate }
    },
  },
  secretRestore: {
    as: 'tenant',
    async answer({ tx, params, body, ifMatch }) {
      const secret = await held(tx, params.id, ifMatch)
      if (!secret.versions.some(({ version }) => version === body.version)) {
        const kept = secret.versions.map(({ version }) => version).join(', ')
        throw invalidRequest([{ pointer: '/version', message: `is not kept; there are ${kept}` }])
      }
      return answerOf(await tx.secrets.restore(secret.id, body.version))
    },
  },
  secretDelete: {
    as: 'tenant',
    async answer({ tx, params, ifMatch }) {
      const secret = await held(tx, params.id, ifMatch)
      const users = secret.grants.filter(({ granteeName }) => granteeName !== null)
      if (users.length > 0) {
        const shown = users.slice(0, 5).map((each) => `the ${words[each.granteeKind]} "${each.granteeName}"`)
        const more = users.length > shown.length ? ` and ${users.length - shown.length} more` : ''
        const whom = `${shown.join(', ')}${more}`
        const message = `The secret "${secret.name}" is granted to ${whom}; revoke that first.`
        throw new BelfryError('in_use', message)
      }
      await tx.secrets.remove(secret.id)
      return { body: undefined, audited: { subjectName: secret.name } }
    },
  },
  ...grantEndpoints,
  ...rewrapEndpoint,
}

async function create(
  { tx, tools, body, credential }: Call<'secretCreate', CatalogTx>,
  made: WrappedKey,
): Promise<Answer<'secretCreate'>> {
  const id = tools.ids.uuidv7(await tx.nowMs())
  const place = { tenantId: credential.tenantId, secretId: id, version: 1 }
  // of two first secrets at once, one is sealed with the key that the other made
  const key = (await tx.tenantKey.find()) ?? (await tx.tenantKey.ensure(made))
  const sealed = await tools.vault.seal(key, place, body.value)
  const { name, description } = body
  const createdBy = actorOf(credential.principal)
  const record = await tx.secrets.insert({ id, name, description, sealed, createdBy })
  return { ...answerOf(record), location: `/v1/secrets/${id}` }
}

async function rotate(call: Call<'secretRotate', CatalogTx>): Promise<Answer<'secretRotate'>> {
  const { tx, tools, params, body, ifMatch, credential } = call
  const secret = await held(tx, params.id, ifMatch)
  const newest = secret.versions[0]?.version ?? secret.version
  const version = newest + 1
  const place = { tenantId: credential.tenantId, secretId: secret.id, version }
  const key = await tx.tenantKey.find()
  if (key === undefined) throw new BelfryError('internal', 'The key of a tenant with secrets is not there.')
  const sealed = await tools.vault.seal(key, place, body.value)
  const createdBy = actorOf(credential.principal)
  const keepFrom = body.discardBefore ? version : version - keptSecretVersions + 1
  return answerOf(await tx.secrets.rotate(secret.id, { version, sealed, createdBy, keepFrom }))
}

const words: Readonly<Record<GranteeKind, string>> = {
  job: 'job',
  workflow: 'workflow',
  service_account: 'service account',
}

function answerOf(secret: SecretRecord): Answer<'secretGet'> & { readonly body: Secret } {
  return { body: secretView(secret), version: secret.revision }
}

async function held(tx: CatalogTx, id: string, ifMatch: string | undefined): Promise<SecretRecord> {
  const secret = await tx.secrets.lock(id)
  if (secret === undefined) throw noSuch('secret', id)
  checkIfMatch(ifMatch, secret.revision)
  return secret
}

const actorOf = ({ kind, name }: Principal): string => `${kind.replace('_', ' ')} ${name}`

interface Named {
  readonly job?: string | undefined
  readonly workflow?: string | undefined
  readonly serviceAccount?: string | undefined
}

/** The schema has seen to it that there is one. */
function nameIn({ job, workflow, serviceAccount }: Named): readonly [kind: GranteeKind, name: string] {
  if (job !== undefined) return ['job', job]
  return workflow === undefined ? ['service_account', serviceAccount ?? ''] : ['workflow', workflow]
}

async function namedGrantee(tx: CatalogTx, given: Named): Promise<Grantee> {
  const [kind, name] = nameIn(given)
  const grantee = await tx.secrets.findGrantee(kind, name)
  if (grantee !== undefined) return grantee
  const pointer = kind === 'service_account' ? '/serviceAccount' : `/${kind}`
  const message = `There is no ${words[kind]} named "${name}".`
  throw new BelfryError('not_found', message, { errors: [{ pointer, message }] })
}

/** Also one that may not be granted anything any more. */
function namedIn({ grants }: SecretRecord, given: Named): Grantee | undefined {
  const [kind, name] = nameIn(given)
  const found = grants.find((grant) => grant.granteeKind === kind && grant.granteeName === name)
  return found && { kind, name, id: found.granteeId }
}

const isOf = (grant: SecretRecord['grants'][number], { kind, id }: Grantee): boolean =>
  grant.granteeKind === kind && grant.granteeId === id

/** Where the grantee takes the secret as it is now. Throws `invalid_request` where it does not name it. */
async function targetsOf(tx: CatalogTx, grantee: Grantee, secret: string): Promise<readonly string[] | null> {
  // which jobs run as a service account, and what they call, is for whoever may act as it to say
  if (grantee.kind === 'service_account') return null
  const handlers =
    grantee.kind === 'workflow'
      ? await tx.secrets.handlersOf(grantee.id)
      : [(await tx.jobs.find(grantee.id))?.definition.handler].filter((each) => each !== undefined)
  const using = handlers.filter((handler) => secretsOf(handler).includes(secret))
  if (using.length > 0) return [...new Set(using.flatMap(secretTargetsOf))].toSorted()
  const what = grantee.kind === 'workflow' ? 'no workflow' : 'no job'
  const message =
    `names ${what} that uses the secret; put it there first ({{secrets.${secret}}} in a header, for ` +
    'example), or grant it for anywhere with "anyTarget"'
  throw invalidRequest([{ pointer: `/${grantee.kind}`, message }])
}
