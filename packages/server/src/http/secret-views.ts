/**
 * From records of secrets, their versions and grants to the bodies that the contract describes. There is no
 * value in either.
 */
import type { Secret, SecretGrant, SecretGranteeKind, SecretSummary } from '@belfry/contract'
import { shownTarget } from '@belfry/contract'
import type {
  GranteeKind,
  SecretGrantRecord,
  SecretRecord,
  SecretSummaryRecord,
} from '../ports/secret-catalog.ts'

const iso = (ms: number): string => new Date(ms).toISOString()

const kindWords: Readonly<Record<GranteeKind, SecretGranteeKind>> = {
  job: 'job',
  workflow: 'workflow',
  service_account: 'serviceAccount',
}

const coreView = (record: Omit<SecretSummaryRecord, 'grantCount'>) => ({
  id: record.id,
  name: record.name,
  description: record.description,
  version: record.version,
  createdAt: iso(record.createdAtMs),
  updatedAt: iso(record.updatedAtMs),
})

export const secretSummaryView = (record: SecretSummaryRecord): SecretSummary => ({
  ...coreView(record),
  grants: record.grantCount,
})

export const secretView = (record: SecretRecord): Secret => ({
  ...coreView(record),
  versions: record.versions.map(({ version, createdBy, createdAtMs }) => {
    return { version, createdBy, createdAt: iso(createdAtMs) }
  }),
  grants: record.grants.map(grantView),
})

const grantView = (grant: SecretGrantRecord): SecretGrant => ({
  grantee: { kind: kindWords[grant.granteeKind], id: grant.granteeId, name: grant.granteeName },
  targets: grant.targets === null ? null : grant.targets.map(shownTarget),
  createdBy: grant.createdBy,
  createdAt: iso(grant.createdAtMs),
})
