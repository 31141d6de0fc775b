// Package v1alpha1 stands in for scheduler-plugins' PodGroup: the fields that the KubeRay operator fills when its
// batch scheduler is on. kvrelay leaves it off, so the type only has to compile.
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	corev1 "k8s.io/api/core/v1"
)

// GroupVersion is the API group that scheduler-plugins registers its PodGroup in.
var GroupVersion = schema.GroupVersion{Group: "scheduling.x-k8s.io", Version: "v1alpha1"}

// PodGroupSpec says how many pods, with which resources in all, must fit before any of them starts.
type PodGroupSpec struct {
	MinMember    int32               `json:"minMember,omitempty"`
	MinResources corev1.ResourceList `json:"minResources,omitempty"`
}

// PodGroup is a set of pods that are scheduled together or not at all.
type PodGroup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              PodGroupSpec `json:"spec,omitempty"`
}

// DeepCopyObject makes PodGroup a runtime.Object.
func (group *PodGroup) DeepCopyObject() runtime.Object {
	duplicate := &PodGroup{TypeMeta: group.TypeMeta, Spec: PodGroupSpec{
		MinMember:    group.Spec.MinMember,
		MinResources: group.Spec.MinResources.DeepCopy(),
	}}
	group.ObjectMeta.DeepCopyInto(&duplicate.ObjectMeta)
	return duplicate
}

// AddToScheme registers PodGroup.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &PodGroup{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
