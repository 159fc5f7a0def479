// Rows that show what traffic control costs a queue that uses it. The limits are so wide that they hold nothing up.
export const trafficCases = [
  { title: 'with a limit', traffic: 'limit' },
  { title: 'with a breaker', traffic: 'breaker' },
  { title: 'with 100 groups', traffic: 'groups' },
  { title: 'with 1,000 groups', traffic: 'manyGroups' },
  // Fifty jobs of a group at a time, so that jobs that run side by side are far apart in the file.
  { title: 'with 1,000 groups in blocks', traffic: 'blocks' },
]
