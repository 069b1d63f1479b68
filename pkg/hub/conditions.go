// Copyright Contributors to the Open Cluster Management project

package hub

import "slices"

// ConditionsOfOthers returns the entries of a stored list of conditions whose types are not in own, such as conditions of a newer
// manager, with every field. A merge patch replaces a list as a whole, so that a writer of conditions has to repeat these entries.
func ConditionsOfOthers(stored any, own []string) []any {
	list, _ := stored.([]any)
	return slices.DeleteFunc(slices.Clone(list), func(entry any) bool {
		condition, _ := entry.(map[string]any)
		name, _ := condition["type"].(string)
		return slices.Contains(own, name)
	})
}
